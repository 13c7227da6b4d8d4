// With PARALLAX_LONG=1: the composer in an app that Vite builds, as docs/composer.md says, with React 18 and 19.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { type IncomingMessage, type Server, type ServerResponse, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { launchChromium } from '../chromium.js';
import { copyDemo } from '../local/site.js';
import { changeHeadline, openFront } from './composer.js';

const PACKED = process.env.PARALLAX_PACKED!;
const DOCUMENT = readFileSync(path.resolve(process.env.PARALLAX_SDK!, '../docs/composer.md'), 'utf8');
const [, ENTRY] = /```tsx\n\/\/ src\/composer\.tsx\n(.*?)```/s.exec(DOCUMENT)!;
const REGISTRY = "export const components = { Hero: ({ props }) => <h1>{props.title}</h1> };\n";
const PAGE = '<!doctype html><html lang="en"><head><title>Composer</title></head><body><div id="composer"></div><script type="module" src="/src/composer.tsx"></script></body></html>';
const TYPES: Record<string, string> = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.wasm': 'application/wasm' };
/** Bound of a step on a busy machine. */
const STEP_MS = 30_000;

type Handler = (request: Request) => Promise<Response>;

async function requestOf(incoming: IncomingMessage): Promise<Request> {
  const chunks: Buffer[] = [];
  for await (const chunk of incoming) chunks.push(chunk);
  const headers = Object.entries(incoming.headers).filter((entry): entry is [string, string] => typeof entry[1] === 'string');
  return new Request(`http://${incoming.headers.host}${incoming.url}`, { method: incoming.method, headers, body: chunks.length ? Buffer.concat(chunks) : undefined });
}

/** Serves the built files and the handler. */
async function serve(dist: string, handler: Handler): Promise<Server> {
  async function answer(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const { pathname } = new URL(incoming.url!, 'http://localhost');
    if (pathname.startsWith('/api/composer/')) {
      const response = await handler(await requestOf(incoming));
      outgoing.writeHead(response.status, Object.fromEntries(response.headers)).end(Buffer.from(await response.arrayBuffer()));
      return;
    }
    const file = path.join(dist, pathname === '/' ? 'index.html' : pathname);
    if (!existsSync(file)) return void outgoing.writeHead(404).end();
    outgoing.writeHead(200, { 'content-type': TYPES[path.extname(file)] ?? 'application/octet-stream' }).end(readFileSync(file));
  }
  const server = createServer((incoming, outgoing) => void answer(incoming, outgoing));
  await new Promise<void>((resolve) => server.listen(0, 'localhost', resolve));
  return server;
}

for (const react of ['18.3.1', '19.3.1']) {
  describe(`the composer with Vite and React ${react}`, { skip: process.env.PARALLAX_LONG ? false : 'PARALLAX_LONG=1 runs it' }, () => {
    let home: string;
    let site: string;
    let server: Server;
    before(async () => {
      home = mkdtempSync(path.join(tmpdir(), 'parallax-vite-'));
      site = path.join(home, 'site');
      copyDemo(site, false);
      mkdirSync(path.join(home, 'src'));
      const files = { 'package.json': '{ "private": true, "type": "module" }', 'index.html': PAGE, 'src/composer.tsx': ENTRY!, 'src/registry.tsx': REGISTRY };
      for (const [name, text] of Object.entries(files)) writeFileSync(path.join(home, name), text);
      const packages = [`react@${react}`, `react-dom@${react}`, '@puckeditor/core@0.23.0', ...['sdk', 'composer'].map((name) => path.join(PACKED, `parallax-${name}-0.1.0.tgz`))];
      const flags = ['--silent', '--no-audit', '--no-fund', '--prefer-offline', '--save-exact'];
      const environment = { ...process.env, NODE_OPTIONS: '' };
      execFileSync('npm', ['install', ...flags, 'vite@8.0.0', ...packages], { cwd: home, stdio: 'inherit', env: environment });
      execFileSync('npx', ['vite', 'build', '--logLevel', 'error'], { cwd: home, stdio: 'inherit', env: environment });
      const { composerHandler, fileStorage } = await import(pathToFileURL(path.join(home, 'node_modules/@parallax/composer/dist/server/index.js')).href);
      const user = { name: 'Ada', email: 'ada@example.com' };
      server = await serve(path.join(home, 'dist'), composerHandler({ storage: fileStorage({ directory: site }), authorize: async () => ({ user, roles: ['view', 'edit'] }) }));
    });
    after(() => {
      server?.closeAllConnections();
      server?.close();
      rmSync(home, { recursive: true, force: true });
    });

    test('a headline is changed, checked and saved', async () => {
      const file = path.join(site, 'routes/index.json');
      const first = readFileSync(file, 'utf8');
      const browser = await launchChromium();
      const page = await browser.newPage({ viewport: { width: 1500, height: 900 } });
      page.setDefaultTimeout(STEP_MS);
      const faults: string[] = [];
      page.on('pageerror', (error) => faults.push(error.message));
      await page.goto(`http://localhost:${(server.address() as AddressInfo).port}/`);
      await openFront(page);
      await changeHeadline(page, 'Built by Vite');
      await browser.close();
      assert.equal(readFileSync(file, 'utf8'), first.replace('Made for the third day of rain', 'Built by Vite'));
      assert.deepEqual(faults, []);
    });
  });
}
