/** The doctor's report in tests, and a node that is in good order. */
import { expect } from 'vitest';
import type { EmbeddedServer, StartServerOptions } from '../../src/dev/index.js';
import { emq, node, on } from './emq.js';

export interface Finding {
  readonly check: string;
  readonly level: 'ok' | 'warn' | 'bad';
  readonly text: string;
  readonly mend?: string;
  readonly queue?: string;
}

export interface Report {
  readonly code: number | null;
  readonly wire: 4 | 6;
  readonly user: string | null;
  readonly where: string;
  readonly bad: readonly string[];
  readonly findings: readonly Finding[];
  of(check: string): Finding;
}

/** Runs it and reads the report; every report is held to what all must be. */
export async function doctor(url: string, ...args: string[]): Promise<Report> {
  const { code, json, stderr } = await emq('doctor', '--url', url, '--json', ...args);
  expect(stderr).toBe('');
  expect(json).toHaveLength(1);
  const report = json[0] as Omit<Report, 'code'> & { ok: boolean; counts: Record<string, number> };
  const bad = report.findings.filter(({ level }) => level === 'bad').map(({ check }) => check);
  for (const { level, mend, check } of report.findings) {
    expect(mend === undefined, `${check}: only what is not ok has to be mended`).toBe(level === 'ok');
  }
  expect(report.ok).toBe(bad.length === 0);
  expect(report.counts['bad']).toBe(bad.length);
  expect(code).toBe(bad.length === 0 ? 0 : 1);
  const of = (check: string): Finding => {
    const found = report.findings.filter((finding) => finding.check === check);
    expect(found.length, `one finding called ${check}`).toBe(1);
    return found[0]!;
  };
  return { ...report, code, bad, of };
}

/** A node that is as it should be, and what a test makes worse. */
export function good(options: StartServerOptions = {}): Promise<EmbeddedServer> {
  const args = ['--appendonly', 'yes', '--maxmemory', '200mb', '--maxmemory-policy', 'noeviction'];
  return node({ module: true, ...options, args: [...args, ...(options.args ?? [])] });
}

export function changes(server: EmbeddedServer): Promise<string | undefined> {
  return on(server, async (redis) => /rdb_changes_since_last_save:(\d+)/.exec(await redis.info('persistence'))?.[1]);
}
