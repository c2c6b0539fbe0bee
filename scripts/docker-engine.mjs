/**
 * A Docker engine of our own for the tests of the image, on a Debian machine that has none running and no registry:
 *
 *   node scripts/docker-engine.mjs start DIR   brings it up in DIR, makes its base image, prints DOCKER_HOST=...
 *   node scripts/docker-engine.mjs stop DIR    takes it down and removes DIR
 *   node scripts/docker-engine.mjs hold DIR    start; stop as soon as its standard input ends or a signal comes
 *
 * `--suite NAME` picks the Debian release of the base image (default trixie); the image is debian:NAME-slim, made by
 * debootstrap from the mirror that this machine's own apt sources name. Only what goes to standard output is for programs.
 *
 * Invariants: the network settings of the host stay as they are (no iptables, no forwarding, ports on loopback only, a
 * bridge of its own name), so containers reach each other and the host reaches them, but they do not reach out: a build
 * needs `--network=host`, which the engine's label `echomq.network=closed` tells the tests. Everything it makes is in DIR or named after it, and `stop` removes it all, also after a crash.
 * `hold` ends with whoever started it, since a pipe ends with its writer.
 * Does not: install anything, use an engine that it did not start, or keep the base image for the next time.
 */
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { accessSync, constants, existsSync, mkdirSync, openSync, readFileSync, readdirSync, rmdirSync } from 'node:fs';
import { rm, writeFile } from 'node:fs/promises';
import { request } from 'node:http';
import { delimiter, join, resolve } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { URLSearchParams } from 'node:url';

const USAGE = 'usage: node scripts/docker-engine.mjs start|stop|hold DIR [--suite NAME]';
/** Program and the Debian package that has it. */
const NEEDED = {
  dockerd: 'docker.io',
  debootstrap: 'debootstrap',
  chroot: 'coreutils',
  ip: 'iproute2',
  tar: 'tar',
  umount: 'mount',
};
/** What Debian's own slim images leave out; the copyright files stay. */
const NOT_SLIM = ['./var/cache/apt/*', './var/lib/apt/lists/*', './usr/share/man/*', './usr/share/info/*']
  .concat(['./usr/share/locale/*', './var/log/*'])
  .map((path) => `--exclude=${path}`);
/** How long the engine may take to answer or to end, in ms. */
const PATIENCE_MS = 30_000;

class Failure extends Error {}

/** Where everything of one engine is, and what it is called. */
class Engine {
  constructor(dir) {
    this.dir = resolve(dir);
    this.socket = join(this.dir, 'docker.sock');
    this.host = `unix://${this.socket}`;
    this.record = join(this.dir, 'engine.json');
    this.log = join(this.dir, 'dockerd.log');
  }

  /** What `start` wrote down, or undefined where there is no engine of ours. */
  get known() {
    return existsSync(this.record) ? JSON.parse(readFileSync(this.record, 'utf8')) : undefined;
  }
}

// ---- other programs -------------------------------------------------------------------------------------------------

const running = new Set();
/** True once a signal came before the start was through. */
let unwanted = false;

/** Runs a program to its end. Rejects with the end of what it said when it fails. */
async function run(command, args) {
  if (unwanted) throw new Failure('stopped before it was up');
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'], detached: true });
  let said = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (text) => (said = `${said}${text}`.slice(-2000)));
  await ended(child, command, () => said);
}

/** Resolves when the child has ended well. It leads a group of its own, so that a signal can end its children too. */
async function ended(child, name, said) {
  running.add(child);
  try {
    await new Promise((done, failed) => {
      child.once('error', failed);
      child.once('close', (code) =>
        code === 0 ? done() : failed(new Failure(`${name} failed: ${lastLines(said())}`)),
      );
    });
  } finally {
    running.delete(child);
  }
}

function lastLines(text) {
  return text.trim().split('\n').slice(-4).join('\n');
}

function signalGroup(pid, signal) {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if (error.code !== 'ESRCH') throw error;
  }
}

// ---- the engine's own interface -------------------------------------------------------------------------------------

/** One request to the engine. Resolves with the text of its answer; `body` may be a stream. */
function api(engine, method, path, body) {
  return new Promise((done, failed) => {
    const call = request({ socketPath: engine.socket, method, path, headers: { host: 'docker' } }, (answer) => {
      let text = '';
      answer.setEncoding('utf8').on('data', (chunk) => (text += chunk));
      answer.on('error', failed).on('end', () => {
        if (answer.statusCode < 400) done(text);
        else failed(new Failure(`the engine answered ${answer.statusCode} to ${path}: ${text.trim()}`));
      });
    });
    call.on('error', failed);
    if (body === undefined) call.end();
    else body.on('error', failed).pipe(call);
  });
}

const answers = (engine) =>
  api(engine, 'GET', '/_ping').then(
    () => true,
    () => false,
  );

// ---- start ----------------------------------------------------------------------------------------------------------

function checkMachine() {
  if (!existsSync('/etc/debian_version'))
    throw new Failure('this needs Debian, whose debootstrap makes the base image');
  if (process.getuid() !== 0) throw new Failure('this needs root: start a Docker engine yourself and set DOCKER_HOST');
  const folders = (process.env.PATH ?? '').split(delimiter);
  const missing = Object.keys(NEEDED).filter((name) => !folders.some((folder) => executable(join(folder, name))));
  if (missing.length === 0) return;
  const packages = missing.map((name) => NEEDED[name]).join(' ');
  throw new Failure(
    `${missing.join(', ')} not found: apt-get install --no-install-recommends ${packages} (and /usr/sbin on PATH)`,
  );
}

function executable(path) {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

async function start(engine, suite) {
  checkMachine();
  if (engine.known !== undefined && (await answers(engine))) return;
  mkdirSync(engine.dir, { recursive: true });
  if (engine.known === undefined && readdirSync(engine.dir).length > 0) {
    throw new Failure(`${engine.dir} is not empty: give a folder of its own, since stop removes it`);
  }
  try {
    await startDaemon(engine);
    await makeBase(engine, suite);
  } catch (error) {
    await stop(engine);
    throw error;
  }
}

async function startDaemon(engine) {
  const name = `emq${randomBytes(4).toString('hex')}`;
  // Written first: what is not written down cannot be taken away again.
  await writeFile(engine.record, JSON.stringify({ bridge: name, cgroup: name }));
  await run('ip', ['link', 'add', name, 'type', 'bridge']);
  const log = openSync(engine.log, 'a');
  const args = [
    ...['--data-root', join(engine.dir, 'root'), '--exec-root', join(engine.dir, 'exec')],
    ...['--pidfile', join(engine.dir, 'dockerd.pid'), '--host', engine.host],
    ...['--label', 'echomq.network=closed'],
    // Another engine's settings, if there are any, are not ours.
    ...['--config-file', await emptySettings(engine), '--bridge', name, '--cgroup-parent', `/${name}`],
    ...['--iptables=false', '--ip6tables=false', '--ip-masq=false', '--ip-forward=false', '--ip=127.0.0.1'],
  ];
  const daemon = spawn('dockerd', args, { stdio: ['ignore', log, log], detached: true });
  daemon.unref();
  let dead;
  daemon.once('error', (error) => (dead = error.message));
  daemon.once('exit', (code) => (dead = `exit code ${code}`));
  for (const end = Date.now() + PATIENCE_MS; !(await answers(engine)); await pause(50)) {
    if (dead !== undefined || Date.now() > end) {
      throw new Failure(
        `dockerd did not come up (${dead ?? 'no answer'}): ${lastLines(readFileSync(engine.log, 'utf8'))}`,
      );
    }
  }
}

async function emptySettings(engine) {
  const file = join(engine.dir, 'daemon.json');
  await writeFile(file, '{}');
  return file;
}

/** A minimal Debian, put together by debootstrap and handed to the engine as a tar stream. */
async function makeBase(engine, suite) {
  const image = `debian:${suite}-slim`;
  const root = join(engine.dir, 'boot');
  tell(`making ${image} by debootstrap`);
  await run('debootstrap', ['--variant=minbase', '--foreign', suite, root, await debianMirror()]);
  // As in Debian's own images: no waiting for the disk after each file. From here on, and in builds.
  mkdirSync(join(root, 'etc/dpkg/dpkg.cfg.d'), { recursive: true });
  await writeFile(join(root, 'etc/dpkg/dpkg.cfg.d/docker-apt-speedup'), 'force-unsafe-io\n');
  await run('chroot', [root, '/debootstrap/debootstrap', '--second-stage']);
  const tar = spawn('tar', ['-C', root, ...NOT_SLIM, '-c', '.'], { stdio: ['ignore', 'pipe', 'pipe'], detached: true });
  let said = '';
  tar.stderr.on('data', (text) => (said += text));
  const query = new URLSearchParams({ fromSrc: '-', repo: 'debian', tag: `${suite}-slim`, changes: 'CMD ["bash"]' });
  const [answer] = await Promise.all([
    api(engine, 'POST', `/images/create?${query}`, tar.stdout),
    ended(tar, 'tar', () => said),
  ]);
  // The engine reports what goes wrong after the first byte as a line of its answer.
  const failure = answer.split('\n').find((line) => line.includes('"error"'));
  if (failure !== undefined) throw new Failure(`the engine refused ${image}: ${failure}`);
  await rm(root, { recursive: true });
}

/** The mirror that this machine's own apt sources name for its own release. */
async function debianMirror() {
  const codename = /^VERSION_CODENAME=(.*)$/m.exec(readFileSync('/etc/os-release', 'utf8'))?.[1];
  const format = ['--format', '$(REPO_URI) $(RELEASE) $(COMPONENT)', 'Created-By: Packages'];
  const child = spawn('apt-get', ['indextargets', ...format], { stdio: ['ignore', 'pipe', 'pipe'], detached: true });
  let listed = '';
  child.stdout.on('data', (text) => (listed += text));
  await ended(child, 'apt-get indextargets', () => listed);
  const entries = listed.split('\n').map((line) => line.split(' '));
  const mirror = entries.find(([, release, part]) => [codename, 'stable'].includes(release) && part === 'main')?.[0];
  if (mirror === undefined) throw new Failure('the apt sources of this machine name no Debian mirror');
  return mirror;
}

// ---- stop -----------------------------------------------------------------------------------------------------------

async function stop(engine) {
  const known = engine.known;
  if (known === undefined) return;
  // Without an engine that answers there is nobody to ask; what it left is found below.
  if (await answers(engine)) await removeContents(engine);
  await endProcesses(engine);
  for (const mount of mountsBelow(engine.dir)) await run('umount', [mount]);
  if (existsSync(`/sys/class/net/${known.bridge}`)) await run('ip', ['link', 'del', known.bridge]);
  removeCgroups(known.cgroup);
  await rm(engine.dir, { recursive: true, force: true });
}

/** Containers with their volumes, then networks: the engine would leave their bridges behind. */
async function removeContents(engine) {
  const containers = JSON.parse(await api(engine, 'GET', '/containers/json?all=1'));
  await Promise.all(containers.map(({ Id }) => api(engine, 'DELETE', `/containers/${Id}?force=1&v=1`)));
  await api(engine, 'POST', '/networks/prune');
}

/** Ends the daemon in good order, then whatever else was started for this engine and is left. */
async function endProcesses(engine) {
  const daemons = processesOf(engine).filter(({ name }) => name === 'dockerd');
  for (const { pid } of daemons) signalGroup(pid, 'SIGTERM');
  await gone(daemons);
  const left = processesOf(engine);
  for (const { pid } of left) signalGroup(pid, 'SIGKILL');
  await gone(left);
}

async function gone(processes) {
  const end = Date.now() + PATIENCE_MS;
  while (processes.some(({ pid }) => existsSync(`/proc/${pid}`)) && Date.now() < end) await pause(20);
}

/** The processes of this engine: those whose command line names its folder, and the children of those. */
function processesOf(engine) {
  const all = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .flatMap((pid) => {
      try {
        const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8');
        const [, name, parent] = /\((.*)\) \S (\d+)/s.exec(readFileSync(`/proc/${pid}/stat`, 'utf8')) ?? [];
        return [{ pid: Number(pid), parent: Number(parent), name, command }];
      } catch {
        return []; // it ended while we looked
      }
    });
  const inside = (text) =>
    ['root', 'exec', 'boot', 'docker.sock'].some((part) => text.includes(join(engine.dir, part)));
  const ours = new Set(all.filter(({ command }) => inside(command)).map(({ pid }) => pid));
  for (let size = -1; size !== ours.size;) {
    size = ours.size;
    for (const { pid, parent } of all) if (ours.has(parent)) ours.add(pid);
  }
  return all.filter(({ pid }) => ours.has(pid));
}

/** Mount points below the folder, the innermost first. */
function mountsBelow(dir) {
  return readFileSync('/proc/self/mountinfo', 'utf8')
    .split('\n')
    .map((line) =>
      (line.split(' ')[4] ?? '').replace(/\\([0-7]{3})/g, (_, octal) => String.fromCharCode(parseInt(octal, 8))),
    )
    .filter((path) => path.startsWith(`${dir}/`))
    .sort()
    .reverse();
}

/** The empty groups that the engine leaves, one below each controller where they are apart. */
function removeCgroups(name) {
  const root = '/sys/fs/cgroup';
  if (!existsSync(root)) return;
  for (const parent of ['.', ...readdirSync(root)]) {
    const path = join(root, parent, name);
    if (existsSync(path)) rmdirSync(path);
  }
}

// ---- the command ----------------------------------------------------------------------------------------------------

function tell(text) {
  process.stderr.write(`docker-engine: ${text}\n`);
}

/** Resolves when a signal comes or, if asked, standard input ends. */
function endOfUse(withInput) {
  return new Promise((done) => {
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => done(signal));
    if (withInput)
      process.stdin
        .on('end', () => done('end of input'))
        .on('error', done)
        .resume();
  });
}

async function main([verb, dir, ...rest]) {
  const suite = rest[0] === '--suite' ? rest[1] : 'trixie';
  const wellFormed = rest.length === 0 || (rest.length === 2 && rest[0] === '--suite' && /^[a-z]+$/.test(suite));
  if (!['start', 'stop', 'hold'].includes(verb) || dir === undefined || !wellFormed) throw new Failure(USAGE);
  const engine = new Engine(dir);
  if (verb === 'stop') return stop(engine);
  const over = endOfUse(verb === 'hold');
  const started = start(engine, suite);
  const first = await Promise.race([started.then(() => 'started'), over]);
  if (first === 'started') {
    process.stdout.write(`DOCKER_HOST=${engine.host}\n`);
    if (verb === 'start') return process.exit(0);
    await over;
  } else {
    // Not wanted any more before it was up: what runs for it ends, and with it the start, which then cleans up.
    unwanted = true;
    for (const child of running) signalGroup(-child.pid, 'SIGTERM');
    await started.catch(() => {});
    unwanted = false;
  }
  await stop(engine);
  process.exit(verb === 'hold' && first === 'started' ? 0 : 1);
}

await main(process.argv.slice(2)).catch((error) => {
  if (!(error instanceof Failure)) throw error;
  tell(error.message);
  process.exit(1);
});
