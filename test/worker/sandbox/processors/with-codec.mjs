/** A processor with a codec of its own. Does not: use JSON. */
export const codec = {
  decode(bytes) {
    if (!Buffer.isBuffer(bytes)) throw new TypeError('no Buffer');
    return { words: bytes.toString().split('|') };
  },
};
export default (job) => job.payload.words;
