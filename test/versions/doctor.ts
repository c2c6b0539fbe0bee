/** What `emq doctor` and `emq parity` say of a version. They run as programs: it needs a compiled dist/. */
import { describe, expect, test } from 'vitest';

import { Connector } from '../../src/index.js';
import { doctor, good } from '../cli/doctor-report.js';
import { emq, node, on, urlFor } from '../cli/emq.js';
import { mustHave, VERSIONS, withServer, type Version } from './servers.js';

const FOUR = { module: false, brand: 4 } as const;

export function doctorSuite({ name, wires, number }: Version): void {
  const native = wires.includes(6);
  const called = `${name.split(' ')[0]} `;

  describe('emq doctor', () => {
    test('finds a wire 4 node in good order', async () => {
      const server = await good(FOUR);
      const report = await doctor(server.url);
      expect(report).toMatchObject({ wire: 4, bad: [] });
      expect(report.findings.filter(({ level }) => level !== 'ok')).toEqual([]);
      expect(server.version).toMatch(number);
      expect(report.of('server').text).toMatch(new RegExp(`^${called}${server.version.replaceAll('.', '\\.')}, up `));
    });

    test('names what a user lacks', async () => {
      const server = await good(FOUR);
      const rights = ['on', '>secret', '+@all', '-zadd', '~*', 'resetchannels'];
      await on(server, (redis) => redis.call('ACL', 'SETUSER', 'half', ...rights));
      const commands = await doctor(urlFor(server, 'half', 'secret'));
      expect(commands.of('rights')).toMatchObject({ level: 'bad', mend: expect.stringMatching(/ \+zadd\b/) as string });
      expect(commands.of('rights').text).toContain('may not run zadd');
      await on(server, (redis) => redis.call('ACL', 'SETUSER', 'half', '+zadd', 'resetkeys', '~emq:{a}:*', '~{emq}:*'));
      const keys = await doctor(urlFor(server, 'half', 'secret'), '--queue', 'b');
      expect(keys.of('rights').level).toBe('bad');
      expect(keys.of('rights').text).toMatch(/may not use emq:\{b\}:/);
      expect(keys.of('rights').mend).toContain('~emq:{b}:* &emq:{b}:events');
    });

    if (native) {
      test('finds a wire 6 node in good order', async () => {
        const server = await good();
        const report = await doctor(server.url);
        expect(report).toMatchObject({ wire: 6, bad: [] });
        expect(report.findings.filter(({ level }) => level !== 'ok')).toEqual([]);
        expect(report.of('module').text).toMatch(/^trafikey is loaded/);
      });
      return;
    }

    test('says that wire 6 needs another server', async () => {
      const server = await good(FOUR);
      const report = await doctor(server.url, '--wire', '6');
      expect(report.bad).toContain('server');
      expect(report.of('server')).toMatchObject({
        text: expect.stringContaining('wire 6 needs Valkey 8.0 or later') as string,
        mend: expect.stringContaining('connect with wire: 4') as string,
      });
      const refused = await Connector.connect({ url: server.url, wire: 6 }).catch((error: unknown) => error);
      expect(refused).toMatchObject({ code: 'EMQWIRE', reason: expect.stringContaining('is not loaded') as string });
    });

    test('and emq parity finds it in parity with a wire 6 node of Valkey 8.0', { timeout: 60_000 }, async () => {
      const path = await mustHave(VERSIONS.valkey80);
      const four = await node(FOUR);
      const six = await withServer(path, () => node({ module: true }));
      const { code, stdout } = await emq('parity', '--url', four.url, '--url', six.url, '--steps', '50');
      expect(stdout.trimEnd()).toMatch(/in parity\.$/);
      expect(code).toBe(0);
    });
  });
}
