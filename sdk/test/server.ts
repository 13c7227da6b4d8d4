// A real server of the demo site on free ports.
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

/** Bound of the start of a server. It takes under a second on a laptop. */
const START_MS = 20_000;
/** Bound of the records of a test, as JSON. */
const EXPORT_BYTES_MAX = 64 << 20;
/** The server refuses unknown variables of its prefix, such as those of these tests. */
const ENVIRONMENT = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('PARALLAX_'))) as NodeJS.ProcessEnv;
const ROOT = path.resolve(process.env.PARALLAX_SDK!, '..');

/** Returns the binary: that of PARALLAX_BIN, else the one that `cargo build` made. */
function binary(): string {
  const places = [process.env.PARALLAX_BIN, path.join(ROOT, 'target/debug/parallax'), path.join(ROOT, 'target/release/parallax')];
  const found = places.find((place) => place && existsSync(place));
  if (!found) throw new Error(`No server binary at ${places.filter(Boolean).join(', ')}; build one with cargo, or set PARALLAX_BIN.`);
  return found;
}

/** Runs a command of the server's binary. Returns its standard output. */
export function runParallax(...words: string[]): string {
  return execFileSync(binary(), words, { encoding: 'utf8', env: ENVIRONMENT, stdio: ['ignore', 'pipe', 'pipe'] });
}

/** Makes a token with a role. Returns it, and the lines of the file of `--access` that know it. */
export function newToken(role: string): { token: string; access: string } {
  const { stdout, stderr } = spawnSync(binary(), ['token', 'new', '--name', 'tests', '--role', role], { encoding: 'utf8', env: ENVIRONMENT });
  return { token: /pxt_\S+/.exec(stderr)![0], access: stdout };
}

export interface RecordedEvent {
  type: string;
  messageId: string;
  anonId: string | null;
  userId: string | null;
  event: string | null;
  path: string | null;
  variants: string | null;
  experiments: string | null;
  payload: Record<string, any>;
}

export interface TestServer {
  url: string;
  admin: string;
  /** The path of the program, the directory that it publishes, and the environment of its commands. */
  binary: string;
  snapshots: string;
  environment: NodeJS.ProcessEnv;
  /** Compiles the directory of a site into the directory that the server publishes. */
  publish(source: string, name: string, flags?: string[]): void;
  /** The recorded events, by `parallax export` beside the running server. */
  records(): RecordedEvent[];
  /** Polls until the records satisfy the condition, and returns them. */
  recorded(isComplete: (records: RecordedEvent[]) => boolean): Promise<RecordedEvent[]>;
  /** Stops the process without an end of its connections: it is silent until `resume`. */
  pause(): void;
  resume(): void;
  stop(): Promise<void>;
}

/** The source of the demo site. */
export const DEMO = path.join(ROOT, 'snapshots/demo');

/** `flags` are further flags of `parallax serve`. It publishes `source`. */
export async function startServer(flags: string[] = [], source = DEMO): Promise<TestServer> {
  const parallax = binary();
  const home = mkdtempSync(path.join(tmpdir(), 'parallax-sdk-'));
  const [snapshots, data] = [path.join(home, 'snapshots'), path.join(home, 'data')];
  mkdirSync(snapshots);
  const publish = (source: string, name: string, more: string[] = []) => {
    execFileSync(parallax, ['compile', source, '-o', path.join(snapshots, `${name}.snapshot`), ...more], { stdio: 'ignore', env: ENVIRONMENT });
  };
  publish(source, 'demo');
  const places = ['--snapshots', snapshots, '--data', data, '--listen', '127.0.0.1:0', '--admin', '127.0.0.1:0', ...flags];
  const child = spawn(parallax, ['serve', ...places], { stdio: ['ignore', 'pipe', 'pipe'], env: ENVIRONMENT });
  const exited = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  const kill = () => {
    child.kill('SIGKILL');
    rmSync(home, { recursive: true, force: true });
  };
  process.once('exit', kill);
  const { url, admin } = await addresses(child);
  const records = () => {
    const text = execFileSync(parallax, ['export', data, '--format', 'ndjson'], { encoding: 'utf8', env: ENVIRONMENT, maxBuffer: EXPORT_BYTES_MAX });
    return text.split('\n').filter(Boolean).map((line) => JSON.parse(line));
  };
  return {
    url,
    admin,
    binary: parallax,
    snapshots,
    environment: ENVIRONMENT,
    publish,
    records,
    async recorded(isComplete) {
      for (const endsAt = Date.now() + START_MS; ; await new Promise((resolve) => setTimeout(resolve, 100))) {
        const now = records();
        if (isComplete(now)) return now;
        if (Date.now() > endsAt) throw new Error(`Not recorded in time. The records: ${JSON.stringify(now)}`);
      }
    },
    pause: () => void child.kill('SIGSTOP'),
    resume: () => void child.kill('SIGCONT'),
    async stop() {
      process.removeListener('exit', kill);
      child.kill('SIGKILL');
      await exited;
      rmSync(home, { recursive: true, force: true });
    },
  };
}

function addresses(child: ReturnType<typeof spawn>): Promise<{ url: string; admin: string }> {
  return new Promise((resolve, reject) => {
    let log = '';
    const fail = () => reject(new Error(`The server did not serve:\n${log}`));
    const timer = setTimeout(fail, START_MS);
    child.once('exit', fail);
    const read = (bytes: Buffer) => {
      log += bytes;
      const url = / serving url=(http:\/\/\S+)/.exec(log)?.[1];
      const admin = /admin address url=(http:\/\/\S+)/.exec(log)?.[1];
      if (!url || !admin) return;
      clearTimeout(timer);
      resolve({ url, admin });
    };
    child.stdout!.on('data', read);
    child.stderr!.on('data', read);
  });
}
