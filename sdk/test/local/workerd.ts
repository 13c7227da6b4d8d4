// A worker in workerd, the runtime of Cloudflare.
import { type ChildProcess, spawn } from 'node:child_process';
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Readable } from 'node:stream';
import { build } from 'esbuild';

const sdk = process.env.PARALLAX_SDK!;
const project = process.env.PARALLAX_PACKED!;
/** Bound of a start. */
const START_MS = 20_000;
/** The process ends after this time, also if the tests were killed. */
const LIFE_SECONDS = 300;

export interface Worker {
  url: string;
  log(): string;
  stop(): Promise<void>;
}

/** Returns the path of the program: npm installs that of this machine. */
function program(): string {
  const resolve = createRequire(path.join(sdk, 'package.json')).resolve;
  const main = resolve('workerd');
  return path.join(path.dirname(main), '../bin/workerd');
}

/** Bundles the text of a worker with the packed package, and starts it with variables. */
export async function startWorker(text: string, variables: Record<string, string>): Promise<Worker> {
  const home = mkdtempSync(path.join(tmpdir(), 'parallax-worker-'));
  const external = { name: 'module', setup: (plugin: any) => plugin.onResolve({ filter: /edge\.wasm$/ }, () => ({ path: './edge.wasm', external: true })) };
  await build({
    stdin: { contents: text, loader: 'ts', resolveDir: project },
    outfile: path.join(home, 'worker.js'),
    bundle: true,
    format: 'esm',
    target: 'es2022',
    plugins: [external],
    logLevel: 'error',
  });
  copyFileSync(path.join(project, 'node_modules/@parallax/sdk/dist/edge.wasm'), path.join(home, 'edge.wasm'));
  const bindings = Object.entries(variables).map(([name, value]) => `(name = "${name}", text = ${JSON.stringify(value)})`);
  writeFileSync(
    path.join(home, 'config.capnp'),
    `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [(name = "main", worker = .worker), (name = "internet", network = (allow = ["private", "public"]))],
  sockets = [(name = "http", address = "127.0.0.1:0", http = (), service = "main")],
);
const worker :Workerd.Worker = (
  modules = [(name = "worker", esModule = embed "worker.js"), (name = "edge.wasm", wasm = embed "edge.wasm")],
  compatibilityDate = "2024-11-11",
  bindings = [${bindings.join(', ')}],
);
`,
  );
  const command = [String(LIFE_SECONDS), program(), 'serve', '--control-fd=3', path.join(home, 'config.capnp')];
  const child = spawn('timeout', command, { stdio: ['ignore', 'pipe', 'pipe', 'pipe'] });
  let log = '';
  for (const stream of [child.stdout!, child.stderr!]) stream.on('data', (bytes) => (log += bytes));
  const exited = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  const kill = () => void child.kill('SIGTERM');
  process.once('exit', kill);
  const port = await listening(child, () => log);
  return {
    url: `http://127.0.0.1:${port}`,
    log: () => log,
    async stop() {
      process.removeListener('exit', kill);
      kill();
      await exited;
      rmSync(home, { recursive: true, force: true });
    },
  };
}

/** Returns the port, which the program writes as JSON. */
function listening(child: ChildProcess, log: () => string): Promise<number> {
  return new Promise((resolve, reject) => {
    const fail = () => reject(new Error(`workerd did not start:\n${log()}`));
    const timer = setTimeout(fail, START_MS);
    child.once('exit', fail);
    let text = '';
    (child.stdio[3] as Readable).on('data', (bytes) => {
      text += bytes;
      const port = /"port":\s*(\d+)/.exec(text)?.[1];
      if (!port) return;
      clearTimeout(timer);
      resolve(Number(port));
    });
  });
}
