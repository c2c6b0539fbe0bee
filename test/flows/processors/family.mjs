/**
 * A processor for the jobs of flows: a leaf gives what its payload says, a parent what it finds of its children, in a form
 * that says what each thing is. Does not: belong to anything else.
 */
const kind = (value) =>
  value instanceof Uint8Array ? { bytes: Buffer.from(value).toString('latin1') } : { value: value ?? String(value) };

export default async function family(job, { children }) {
  const { gives, bytes, dies } = job.payload;
  if (dies) throw new Error(dies);
  if (gives !== undefined) return gives;
  if (bytes !== undefined) return Buffer.from(bytes, 'latin1');
  const found = await children();
  const maps = [found.values, found.ignored, found.failures].every((map) => map instanceof Map);
  return {
    maps,
    values: [...found.values.values()].map(kind),
    ignored: [...found.ignored.values()].map((text) => text.split('\n')[0]),
    failures: found.failures.size,
  };
}
