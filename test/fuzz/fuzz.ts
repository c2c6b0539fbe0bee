/**
 * The fuzzers for a while: each begins with the corpus that is kept, and goes on from there with libFuzzer.
 *
 * `EMQ_SEED` repeats a run; it is printed. `EMQ_FUZZ_INPUT`, bytes in hex, gives the fuzzers that one input instead. A
 * finding fails with what was found, the input in hex, and how to give it again.
 * Does not: add to the corpus (corpus/README.md says how).
 */
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { runs } from '../module/tools.js';
import { seed } from '../parity/seed.js';
import { build, here, missingForPrograms, run } from './programs.js';

/** An input longer than this holds nothing that a shorter one does not. */
const LONGEST = { fuzz_parse: 512, fuzz_commands: 400 };
export type Fuzzer = keyof typeof LONGEST;

/** The tests of one fuzzer. @param file whose they are, for the line with the seed. @param seconds of search. */
export function fuzz(file: string, fuzzer: Fuzzer, seconds: number): void {
  const given = process.env.EMQ_FUZZ_INPUT;
  describe.runIf(runs(`${fuzzer} in ${file}`, missingForPrograms()))(fuzzer, () => {
    let folder: string;
    let program: string;
    beforeAll(async () => {
      folder = await mkdtemp(join(tmpdir(), 'emq-fuzz-'));
      program = build(fuzzer, folder);
    });
    afterAll(() => rm(folder, { recursive: true, force: true }));

    test('finds nothing', { timeout: (seconds + 120) * 1000 }, async () => {
      if (given !== undefined) {
        const input = join(folder, 'given');
        await writeFile(input, Buffer.from(given, 'hex'));
        const { code, stderr } = await run(program, [input], folder);
        expect(code, stderr).toBe(0);
        return;
      }
      console.log(`${file}: ${fuzzer}, ${seconds} s, EMQ_SEED=${seed}`);
      const fresh = await mkdtemp(join(folder, 'found-'));
      const { code, stderr } = await run(
        program,
        [
          // 0 would be "any"
          `-seed=${seed >>> 0 || 1}`,
          `-max_total_time=${seconds}`,
          `-max_len=${LONGEST[fuzzer]}`,
          '-len_control=0',
          '-timeout=20',
          '-rss_limit_mb=2048',
          `-dict=${join(here, 'fuzz.dict')}`,
          fresh,
          join(here, 'corpus', fuzzer),
        ],
        folder,
      );
      expect(code, await told(fuzzer, file, folder, stderr)).toBe(0);
      const inputs = Number(/^Done (\d+) runs/m.exec(stderr)?.[1] ?? 0);
      const kept = (await readdir(join(here, 'corpus', fuzzer))).length;
      expect(kept).toBeGreaterThan(20);
      expect(inputs).toBeGreaterThan(kept);
    });
  });
}

/** What was found, as a text for people: empty when nothing was. */
async function told(fuzzer: Fuzzer, file: string, folder: string, stderr: string): Promise<string> {
  const name = (await readdir(folder)).find((one) => /^(crash|leak|oom|timeout)-/.test(one));
  const input = name === undefined ? undefined : (await readFile(join(folder, name))).toString('hex');
  const again =
    input === undefined ? '' : `\ninput: ${input}\nagain: EMQ_FUZZ_INPUT=${input} npx vitest run ${file} -t ${fuzzer}`;
  return `${stderr.slice(-6000)}${again}`;
}
