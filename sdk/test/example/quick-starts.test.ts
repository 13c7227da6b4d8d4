// With PARALLAX_LONG=1: the quick starts of docs/sdk.md that need a build, in empty directories, and their pages in Chromium.
import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { USER_AGENT, launchChromium } from '../chromium.js';
import { DEMO, type TestServer, runParallax, startServer } from '../server.js';
import { reservePort, until } from './site.js';

const SDK = process.env.PARALLAX_SDK!;
const DOCUMENT = readFileSync(path.join(SDK, '../docs/sdk.md'), 'utf8');
const GERMAN = 'Gemacht für den dritten Regentag';

/** Views while Parallax is stopped. One of them must be within the bound, far below the 2 s of a call without a deadline. */
const OUTAGE_VIEWS = 5;
const OUTAGE_MS = 1_000;

interface QuickStart {
  section: string;
  /** Makes the directory `my-website`. */
  create: string;
  /** Runs in it before the files of the section are written. */
  prepare: string;
  /** The file of the types, beside `parallax.ts`. */
  types: string;
  build: string;
  /** Serves the website on PORT. */
  serve: string;
  /** Checks more than the front page. */
  check?(url: string, edge: TestServer): Promise<void>;
}

/** Orders as a visitor without cookies. The response sets the ID with which the order is recorded. */
async function orderAsNewVisitor(url: string, edge: TestServer): Promise<void> {
  const response = await fetch(`${url}orders`, { method: 'POST', redirect: 'manual', headers: { 'sec-fetch-dest': 'document' } });
  const id = /^anon_id=([^;]+)/.exec(response.headers.get('set-cookie') ?? '')?.[1];
  const all = await edge.recorded((records) => records.some(({ event }) => event === 'Order Placed'));
  assert.deepEqual(all.filter(({ event }) => event === 'Order Placed').map(({ anonId }) => anonId), [id]);
}

const QUICK_STARTS: QuickStart[] = [
  {
    section: 'React with Vite',
    create: 'npm create --yes vite@latest my-website -- --template react-ts',
    prepare: 'npm install',
    types: 'src/site.ts',
    build: 'npx vite build',
    serve: 'npx vite preview --host localhost --port $PORT --strictPort',
  },
  {
    section: 'SvelteKit',
    create: 'npx --yes sv create my-website --template minimal --types ts --no-add-ons --no-install',
    prepare: `npm install && npm install --save-dev @sveltejs/adapter-node@5
      sed -i 's/adapter-auto/adapter-node/' vite.config.ts
      rm src/routes/+page.svelte`,
    types: 'src/lib/site.ts',
    build: 'npm run build',
    serve: 'ORIGIN=http://localhost:$PORT node build',
  },
  {
    section: 'Astro',
    // `npm create astro` and later versions need Node 22.
    create: 'mkdir my-website',
    prepare: 'npm init --yes && npm pkg set type=module && npm install astro@5 @astrojs/node@9',
    types: 'src/site.ts',
    build: 'npx astro build',
    serve: 'HOST=localhost node dist/server/entry.mjs',
  },
  {
    section: 'Remix (React Router in framework mode)',
    // `create-react-router` downloads its template from GitHub. The packages need Node 22, and all of them the same version.
    create: 'mkdir my-website',
    prepare: `npm init --yes && npm pkg set type=module
      npm install node@22 react@19 react-dom@19 isbot@5 vite@8 react-router@8.4.0 @react-router/{dev,node,serve}@8.4.0
      echo "import { reactRouter } from '@react-router/dev/vite'; export default { plugins: [reactRouter()] };" > vite.config.ts`,
    types: 'app/site.ts',
    build: 'npx react-router build',
    serve: 'npx react-router-serve build/server/index.js',
  },
  {
    section: 'Next.js with the Pages Router',
    create: `npx --yes create-next-app@16 my-website --typescript --no-app --no-src-dir --no-eslint --no-tailwind --no-react-compiler --no-agents-md \
      --use-npm --disable-git --skip-install --yes`,
    prepare: 'rm pages/index.tsx && npm install',
    types: 'site.ts',
    build: 'npm run build',
    serve: 'npm start -- -H localhost -p $PORT',
  },
  {
    section: 'Express',
    create: 'mkdir my-website',
    prepare: 'npm init --yes && npm pkg set type=module && npm install express@5',
    types: 'site.ts',
    build: 'node --check server.js',
    serve: 'node server.js',
    check: orderAsNewVisitor,
  },
];

/** Returns the files of a section: a block after a paragraph that is the name of the file. */
function filesOf(section: string): [string, string][] {
  const text = DOCUMENT.split(`\n### ${section}\n`)[1]?.split('\n### ')[0] ?? '';
  const files = [...text.matchAll(/^`([^`\n]+)`:\n\n```\w+\n(.*?)^```$/gms)].map(([, name, block]) => [name!, block!] as [string, string]);
  assert.ok(files.length > 0, `docs/sdk.md has no file in "${section}"`);
  return files;
}

function run(commands: string, cwd: string): void {
  try {
    execFileSync('bash', ['-euo', 'pipefail', '-c', commands], { cwd, encoding: 'utf8', stdio: 'pipe', env: { ...process.env, NODE_OPTIONS: '' } });
  } catch (error) {
    const { stdout, stderr } = error as { stdout: string; stderr: string };
    assert.fail(`a command fails:\n${commands}\n${stdout}\n${stderr}`);
  }
}

describe('the quick starts of docs/sdk.md with a build', { skip: process.env.PARALLAX_LONG ? false : 'PARALLAX_LONG=1 runs it' }, () => {
  let edge: TestServer;
  let home: string;
  let packed: string;
  before(async () => {
    edge = await startServer();
    home = mkdtempSync(path.join(tmpdir(), 'parallax-quick-starts-'));
    packed = path.join(process.env.PARALLAX_PACKED!, 'parallax-sdk-0.1.0.tgz');
  });
  after(async () => {
    await edge?.stop();
    rmSync(home, { recursive: true, force: true });
  });

  function makeWebsite({ section, create, prepare, types, build }: QuickStart): string {
    const parent = mkdtempSync(path.join(home, 'site-'));
    const website = path.join(parent, 'my-website');
    run(create, parent);
    run(`${prepare}\nnpm install ${packed}`, website);
    for (const [name, text] of filesOf(section)) {
      mkdirSync(path.dirname(path.join(website, name)), { recursive: true });
      writeFileSync(path.join(website, name), text.replaceAll('http://127.0.0.1:8080', edge.url));
    }
    writeFileSync(path.join(website, types), runParallax('types', DEMO));
    run(build, website);
    return website;
  }

  /** Opens the front page as a German visitor. Returns its heading and the recorded views. */
  async function viewFrontPage(url: string) {
    const browser = await launchChromium();
    const context = await browser.newContext({ userAgent: USER_AGENT, locale: 'de-DE' });
    const page = await context.newPage();
    const sent = page.waitForResponse((response) => response.url() === `${edge.url}/v1/batch`);
    await page.goto(url);
    await sent;
    const heading = await page.locator('h1').textContent();
    const id = (await context.cookies()).find(({ name }) => name === 'anon_id')!.value;
    const all = await edge.recorded((records) => records.some(({ anonId }) => anonId === id));
    await browser.close();
    // An experiment may choose a variant of another zone.
    const views = all.filter(({ anonId }) => anonId === id).map(({ type, path: viewed, variants }) => [type, viewed, variants?.split(',')[0]]);
    return { heading, views };
  }

  /** Requests the front page while Parallax is stopped: it comes with its own heading. Returns the times in milliseconds. */
  async function viewInAnOutage(url: string): Promise<number[]> {
    const browser = await launchChromium();
    const page = await browser.newPage();
    const waits: number[] = [];
    edge.pause();
    try {
      for (let i = 0; i < OUTAGE_VIEWS; i++) {
        const begin = performance.now();
        await page.goto(url, { waitUntil: 'commit' });
        await page.locator('h1').filter({ hasText: /^Shop$/ }).waitFor();
        waits.push(Math.round(performance.now() - begin));
      }
    } finally {
      edge.resume();
      await browser.close();
    }
    return waits;
  }

  for (const quickStart of QUICK_STARTS) {
    test(quickStart.section, async () => {
      const website = makeWebsite(quickStart);
      const { port, release } = await reservePort();
      await release();
      const server: ChildProcess = spawn('bash', ['-c', quickStart.serve], { cwd: website, env: { ...process.env, NODE_OPTIONS: '', PORT: String(port) }, detached: true, stdio: 'ignore' });
      try {
        const url = `http://localhost:${port}/`;
        await until(() => fetch(url).then(() => true, () => false));
        assert.deepEqual(await viewFrontPage(url), { heading: GERMAN, views: [['page', '/', 'hero:deutsch']] });
        await quickStart.check?.(url, edge);
        const waits = await viewInAnOutage(url);
        console.log(`${quickStart.section}, heading while Parallax is stopped: ${waits.join(', ')} ms`);
        assert.ok(Math.min(...waits) < OUTAGE_MS, String(waits));
      } finally {
        process.kill(-server.pid!); // `npx` starts the server in a process of its own
      }
    });
  }
});
