// With PARALLAX_LONG=1: the site of docs/nextjs.md with Next.js 15 and React 18, without Cache Components.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { USER_AGENT, launchChromium } from '../chromium.js';
import { DEMO, type TestServer, startServer } from '../server.js';
import { documentedFiles } from './documented.js';
import { type NextProcess, get, reservePort, startNext, until } from './site.js';

const GERMAN = 'Gemacht für den dritten Regentag';
/** The page of docs/sdk.md for Next.js 15: no Cache Components, and React 18 has no `use`. */
const PAGE = (text: string) =>
  text
    .replace("import { cacheLife, cacheTag } from 'next/cache';\n", '')
    .replace('export const instant = false;', 'export const revalidate = 3600;')
    .replace(/async function load[^]*?\n}\n/, 'const load = (segments: string[]) => getLayout(client, segments);\n')
    .replace('getLayout, staticParams, tagsOf', 'getLayout, staticParams');

describe('Next.js 15 with React 18', { skip: process.env.PARALLAX_LONG ? false : 'PARALLAX_LONG=1 runs it' }, () => {
  let edge: TestServer;
  let home: string;
  let site: NextProcess;
  let url: string;
  before(async () => {
    edge = await startServer();
    const { port, release } = await reservePort();
    url = `http://localhost:${port}`;
    home = mkdtempSync(path.join(tmpdir(), 'parallax-next15-'));
    for (const [name, text] of documentedFiles()) {
      const file = path.join(home, name === 'proxy.ts' ? 'middleware.ts' : name);
      mkdirSync(path.dirname(file), { recursive: true });
      const changed = name.endsWith('page.tsx') ? PAGE(text) : name === 'proxy.ts' ? text.replace('const proxy', 'const middleware') : text;
      writeFileSync(file, changed.replaceAll('http://127.0.0.1:8080', edge.url).replaceAll('http://localhost:3000', url));
    }
    const packed = path.join(process.env.PARALLAX_PACKED!, 'parallax-sdk-0.1.0.tgz');
    const script = `npm init -y; npm pkg set type=module; npm install --silent ${packed} next@15 react@18 react-dom@18
      npm install --silent --save-dev typescript@5 @types/node @types/react@18; echo SITE_SECRET=a-secret > .env.local; npx next build`;
    execFileSync('bash', ['-euo', 'pipefail', '-c', script], { cwd: home, stdio: 'pipe', env: { ...edge.environment, NODE_OPTIONS: '', NEXT_TELEMETRY_DISABLED: '1' } });
    await release();
    site = await startNext(home, port, {});
  });
  after(async () => {
    await site?.stop();
    await edge?.stop();
    rmSync(home, { recursive: true, force: true });
  });

  test('each visitor gets the own page in the first HTML, and redirects and unknown paths work', async () => {
    assert.equal((await get({ url }, '/', { 'accept-language': 'de' })).heading, GERMAN);
    assert.notEqual((await get({ url }, '/', { 'accept-language': 'en' })).heading, GERMAN);
    assert.equal((await get({ url }, '/sleep')).status, 308);
    assert.equal((await get({ url }, '/nothing')).status, 404);
    assert.equal((await get({ url }, '/px/-/tents')).status, 404);
  });

  test('a view and an event are recorded, the next page knows them, and a sign-out begins a new visitor', async () => {
    const browser = await launchChromium();
    const context = await browser.newContext({ userAgent: USER_AGENT });
    const page = await context.newPage();
    const problems: string[] = [];
    page.on('pageerror', (error) => problems.push(error.message));
    const viewed = page.waitForResponse((response) => response.url() === `${edge.url}/v1/batch`);
    await page.goto(`${url}/account/membership`);
    await viewed;
    await page.locator('button').click();
    await page.reload();
    assert.equal(await page.textContent('aside h2'), 'You have one of our tents');
    assert.deepEqual(problems, []);
    await browser.close();
  });

  test('a publication shows', async () => {
    const source = path.join(home, 'site');
    execFileSync('cp', ['-r', DEMO, source]);
    execFileSync('sed', ['-i', 's/A roof you can carry/A roof for version 15/', path.join(source, 'routes/tents.json')]);
    edge.publish(source, 'demo', ['--version', String(Date.now())]);
    await until(async () => (await get({ url }, '/tents')).heading === 'A roof for version 15');
  });
});
