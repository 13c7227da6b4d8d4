// The app of a team: the composer behind a handler, with a copy of the demo site, and Chromium.
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { type IncomingMessage, type ServerResponse, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { type Plugin, build } from 'esbuild';
import { type Browser, chromium } from 'playwright-core';
import { type Publisher, type Role, composerHandler, fileStorage } from '../../src/server/index.js';
import { ENVIRONMENT } from '../server/site.js';

const COMPOSER = process.env.PARALLAX_COMPOSER!;
const ROOT = path.join(COMPOSER, '..');
const EXAMPLE = realpathSync(path.join(ROOT, 'sdk/example'));
export const MODULES = process.env.PARALLAX_MODULES ?? path.join(process.env.CARGO_TARGET_DIR ?? path.join(ROOT, 'target'), 'modules');

/** The program, which checks what the composer has saved. */
export const PARALLAX = process.env.PARALLAX_BIN ?? path.join(ROOT, 'target/debug/parallax');

/** Bundles the page with the packed package, and the components of the example without Next.js. */
export async function bundle(project: string): Promise<{ script: string; styles: string; worker: string }> {
  const out = path.join(project, '.page');
  const shims = path.join(COMPOSER, 'test/editor/shims.tsx');
  const sdk = realpathSync(path.join(ROOT, 'sdk/src'));
  const replaced: Plugin = {
    name: 'example',
    setup({ onResolve, resolve }) {
      onResolve({ filter: /^example\// }, ({ path: wanted }) => ({ path: path.join(EXAMPLE, wanted.endsWith('.css') ? `app/${wanted.slice(8)}` : `components/${wanted.slice(8)}.tsx`) }));
      onResolve({ filter: /^next\/(link|navigation)(\.js)?$/ }, () => ({ path: shims }));
      onResolve({ filter: /^@parallax\/sdk/ }, ({ path: wanted }) => {
        const entry: Record<string, string> = { '': 'index.ts', '/react': 'react.tsx', '/react/client': 'react-client.tsx', '/next/client': 'next-client.tsx' };
        return { path: path.join(sdk, entry[wanted.slice('@parallax/sdk'.length)]!) };
      });
      onResolve({ filter: /^(react|react-dom|@parallax\/composer|@puckeditor\/core)(\/|$)/ }, ({ path: wanted, kind, pluginData }) => (pluginData === 'own' ? undefined : resolve(wanted, { kind, resolveDir: project, pluginData: 'own' })));
    },
  };
  await build({
    entryPoints: { page: path.join(COMPOSER, 'test/editor/page.tsx'), worker: '@parallax/composer/worker' },
    bundle: true,
    outdir: out,
    format: 'esm',
    minify: true,
    jsx: 'automatic',
    define: { 'process.env.NODE_ENV': '"production"' },
    plugins: [replaced],
    absWorkingDir: project,
    nodePaths: [path.join(project, 'node_modules')],
    loader: { '.svg': 'dataurl' },
    external: ['/img/*', '/fonts/*'],
    logLevel: 'warning',
  });
  const read = (name: string) => readFileSync(path.join(out, name), 'utf8');
  return { script: read('page.js'), styles: read('page.css'), worker: read('worker.js') };
}

export interface Team {
  url: string;
  /** The directory of the site. */
  directory: string;
  browser: Browser;
  /** The roles of the person who is signed in. */
  roles: Role[];
  user: { name: string; email: string };
  /** The requests that reached anything but the page, its files and the handler. */
  others: string[];
  stop(): Promise<void>;
}

/** What the app has beside the site: a work tree of git, and a server that serves the site. */
export interface TeamOptions {
  hasGit?: boolean;
  hasServer?: boolean;
  publish?: Publisher;
  previewSecret?: string;
  /** Changes the copy of the site before the start. */
  prepare?(directory: string): void;
}

/** Starts the app on a copy of the demo site. */
export async function startTeam(page: Awaited<ReturnType<typeof bundle>>, { hasGit = false, hasServer = false, publish, previewSecret, prepare }: TeamOptions = {}): Promise<Team> {
  const directory = mkdtempSync(path.join(tmpdir(), 'parallax-site-'));
  cpSync(path.join(ROOT, 'snapshots/demo'), directory, { recursive: true });
  prepare?.(directory);
  const team = { directory, roles: ['view', 'edit', 'publish'], user: { name: 'Ada', email: 'ada@example.com' }, others: [] } as unknown as Team;
  const git = (...words: string[]) => execFileSync('git', ['-C', directory, '-c', 'user.name=Ada', '-c', 'user.email=ada@example.com', ...words]);
  if (hasGit) {
    git('init', '-q');
    git('add', '.');
    git('commit', '-q', '-m', 'The first site');
  }
  const parallax = hasServer ? await startServer(directory) : undefined;
  const handler = composerHandler({ storage: fileStorage({ directory, commit: hasGit, publish }), parallax, previewSecret, authorize: async () => team.user && { user: team.user, roles: team.roles } });
  const files: Record<string, [string, string | Buffer]> = {
    '/': ['text/html', '<!doctype html><html lang="en"><head><title>Composer</title><link rel="stylesheet" href="/page.css"></head><body><div id="composer"></div><script type="module" src="/page.js"></script></body></html>'],
    '/page.js': ['text/javascript', page.script],
    '/page.css': ['text/css', page.styles],
    '/worker.js': ['text/javascript', page.worker],
    '/author.wasm': ['application/wasm', existsSync(path.join(MODULES, 'author.wasm')) ? readFileSync(path.join(MODULES, 'author.wasm')) : ''],
  };
  const server = createServer((incoming, outgoing) => void answer(incoming, outgoing));
  async function answer(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const { pathname } = new URL(incoming.url!, team.url);
    if (pathname.startsWith('/api/composer/')) return send(outgoing, await handler(await requestOf(incoming, team.url)));
    const file = Object.hasOwn(files, pathname) ? files[pathname] : undefined;
    if (!file && !/^\/(img|fonts)\//.test(pathname) && pathname !== '/favicon.ico') team.others.push(`${incoming.method} ${incoming.url}`);
    outgoing.writeHead(file ? 200 : 404, { 'content-type': file?.[0] ?? 'text/plain' }).end(file?.[1] ?? '');
  }
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  team.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  team.browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox', '--disable-gpu'] });
  team.stop = async () => {
    await team.browser.close();
    parallax?.stop();
    server.closeAllConnections();
    server.close();
    rmSync(directory, { recursive: true, force: true });
  };
  return team;
}

/** Starts a server of the site, and makes a token with the role composer for it. */
async function startServer(directory: string): Promise<{ adminUrl: string; token: string; stop(): void }> {
  const home = mkdtempSync(path.join(tmpdir(), 'parallax-server-'));
  mkdirSync(path.join(home, 'snapshots'));
  execFileSync(PARALLAX, ['compile', directory, '-o', path.join(home, 'snapshots/')], { stdio: 'ignore', env: ENVIRONMENT });
  const made = spawnSync(PARALLAX, ['token', 'new', '--name', 'composer', '--role', 'composer'], { encoding: 'utf8', env: ENVIRONMENT });
  const access = path.join(home, 'access.toml');
  writeFileSync(access, made.stdout, { mode: 0o600 });
  const words = ['serve', '--snapshots', path.join(home, 'snapshots'), '--data', path.join(home, 'data'), '--listen', '127.0.0.1:0', '--admin', '127.0.0.1:0', '--access', access];
  const child = spawn(PARALLAX, words, { stdio: ['ignore', 'pipe', 'pipe'], env: ENVIRONMENT });
  process.once('exit', () => child.kill('SIGKILL'));
  const adminUrl = await new Promise<string>((resolve, reject) => {
    let log = '';
    const read = (bytes: Buffer) => {
      log += bytes;
      const address = /admin address url=(http:\/\/\S+)/.exec(log)?.[1];
      if (address && / serving url=/.test(log)) resolve(address);
    };
    child.stdout.on('data', read);
    child.stderr.on('data', read);
    child.once('exit', () => reject(new Error(log)));
  });
  const stop = () => {
    child.kill('SIGKILL');
    rmSync(home, { recursive: true, force: true });
  };
  return { adminUrl, token: /pxt_\S+/.exec(made.stderr)![0], stop };
}

async function requestOf(incoming: IncomingMessage, url: string): Promise<Request> {
  const chunks: Buffer[] = [];
  for await (const chunk of incoming) chunks.push(chunk);
  const headers = Object.entries(incoming.headers).flatMap(([name, value]) => (typeof value === 'string' ? [[name, value] as [string, string]] : []));
  return new Request(new URL(incoming.url!, url), { method: incoming.method, headers, body: chunks.length > 0 ? Buffer.concat(chunks) : undefined });
}

async function send(outgoing: ServerResponse, response: Response): Promise<void> {
  outgoing.writeHead(response.status, Object.fromEntries(response.headers)).end(Buffer.from(await response.arrayBuffer()));
}
