/** Behind sentinels: the connector asks them where the primary is, at every connect, and follows a failover. */
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { Connector } from '../../src/wire/connector.js';
import { TestServer } from './server.js';
import { call, count, touch } from './stand-ins.js';

it('follows a failover: no call counts twice, none is lost without a word', async () => {
  await using first = await TestServer.start();
  await using second = await TestServer.start('--replicaof', `127.0.0.1 ${first.port}`);
  const conf = join(first.dir, 'sentinel.conf');
  await writeFile(
    conf,
    `sentinel monitor main 127.0.0.1 ${first.port} 1\nsentinel down-after-milliseconds main 300\nsentinel failover-timeout main 2000\n`,
  );
  await using sentinel = await TestServer.sentinel(conf);
  const sees = async (): Promise<string> =>
    ((await sentinel.admin.call('SENTINEL', 'REPLICAS', 'main')) as string[][]).join();
  await expect.poll(sees, { timeout: 20_000 }).toMatch(new RegExp(`${second.port},.*master-link-status,ok`));

  const sentinels = [{ host: '127.0.0.1', port: sentinel.port }];
  await using connector = await Connector.connect({
    ...{ redis: { sentinels, name: 'main' }, reconnectMinMs: 20, reconnectMaxMs: 100 },
    ...{ waitMs: 20_000, replyTimeoutMs: 20_000 },
  });
  expect(await connector.run(call(count))).toBe(1);
  // Replication is asynchronous: what the replica does not have yet would be lost with its primary.
  await expect.poll(() => second.admin.get('emq:{q}:k')).toBe('1');
  const up = once(connector, 'connected');
  await first.end();
  const running = connector.runAll([call(touch, 't'), call(count)]);
  await up;
  const [touched, counted] = await running;
  expect(touched).toMatchObject({ ok: true });
  // Sent into the dying connection, or after it was known to be lost: both are told truly.
  if (counted?.ok === true) expect(counted.reply).toBe(2);
  else expect(counted?.error.code).toBe('EMQ_UNKNOWN_OUTCOME');
  expect(await second.admin.get('{emq}:version')).toBe('echomq:4.0.0');
  expect(await connector.run(call(touch, 't'))).toBeGreaterThanOrEqual(2);
});
