/**
 * A processor that throws when it is imported. Where EMQ_TEST_PIDS names a file it first looks how many of its kind are
 * alive, and leaves the number behind.
 * Does not: run a job, ever.
 */
import { appendFileSync, existsSync, readFileSync } from 'node:fs';

function isAlive(pid) {
  const stat = `/proc/${pid}/stat`;
  return existsSync(stat) && !/\) [ZX] /.test(readFileSync(stat, 'utf8'));
}

const file = process.env.EMQ_TEST_PIDS;
if (file) {
  const others = readFileSync(file, 'utf8').split('\n').flatMap((line) => line.split(' ')[0] || []); // prettier-ignore
  appendFileSync(file, `${process.pid} ${others.filter(isAlive).length + 1}\n`);
}
throw new Error('the import went wrong');
