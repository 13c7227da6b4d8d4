// docs/nextjs.md, followed word by word in an empty directory: each file, each command, and the page in Chromium.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { USER_AGENT, launchChromium } from '../chromium.js';
import { type TestServer, startServer } from '../server.js';
import { documentedSteps } from './documented.js';
import { type NextProcess, type ReservedPort, reservePort, startNext, until } from './site.js';

/** Bound of a page while Parallax is stopped. A page waits 150 ms; with the deadline of development it would wait 2 s. */
const SILENT_MS = 1_000;
const ROOT = path.resolve(process.env.PARALLAX_SDK!, '..');

let edge: TestServer;
let home: string;
let reserved: ReservedPort;
let site: NextProcess | undefined;
before(async () => {
  edge = await startServer();
  reserved = await reservePort();
  home = mkdtempSync(path.join(tmpdir(), 'parallax-documented-'));
  symlinkSync(ROOT, path.join(home, 'parallax'));
});
after(async () => {
  await site?.stop();
  await edge?.stop();
  rmSync(home, { recursive: true, force: true });
});

/** Replaces the addresses of the page by those of the test. */
const actual = (text: string) =>
  text.replaceAll('http://127.0.0.1:8080', edge.url).replaceAll('http://localhost:3000', `http://localhost:${reserved.port}`);

/** Runs the commands of a block with the program and the published directory of the tests. */
function run(commands: string, directory: string): void {
  const script = actual(commands).replace('../parallax/target/release/parallax', `"${edge.binary}"`).replace('-o ../parallax/snapshots/', `-o "${edge.snapshots}/"`);
  try {
    execFileSync('bash', ['-euo', 'pipefail', '-c', script], { cwd: directory, encoding: 'utf8', stdio: 'pipe', env: edge.environment });
  } catch (error) {
    const { stdout, stderr } = error as { stdout: string; stderr: string };
    assert.fail(`a command of docs/nextjs.md fails:\n${commands}\n${stdout}\n${stderr}`);
  }
}

async function buyATent(): Promise<void> {
  const browser = await launchChromium();
  const page = await (await browser.newContext({ userAgent: USER_AGENT })).newPage();
  const viewed = page.waitForResponse((response) => response.url() === `${edge.url}/v1/batch`);
  await page.goto(`http://localhost:${reserved.port}/account/membership`);
  await viewed;
  await page.locator('button').click();
  await page.reload();
  assert.equal(await page.textContent('aside h2'), 'You have one of our tents');
  await browser.close();
}

/** The documented order: the development server first. Returns its output after a visitor has seen four pages. */
async function develop(shop: string): Promise<string> {
  const { port, release } = await reservePort();
  await release();
  const development = await startNext(shop, port, {}, 'dev');
  const browser = await launchChromium();
  const page = await (await browser.newContext({ userAgent: USER_AGENT, locale: 'de-DE' })).newPage();
  const problems: string[] = [];
  page.on('console', (message) => message.type() === 'error' && !/favicon/.test(message.location().url) && problems.push(message.text()));
  page.on('pageerror', (error) => problems.push(error.message));
  for (const pathname of ['/', '/tents', '/products/rype-2', '/account/membership']) {
    await page.goto(`http://localhost:${port}${pathname}`);
    await page.waitForLoadState('networkidle');
    assert.ok(await page.locator('main').count(), pathname);
  }
  await browser.close();
  await development.stop();
  assert.deepEqual(problems, []);
  return development.log();
}

/** A stopped Parallax: pages come with the baseline, each within a bound that is far below the deadlines of a call and of a socket. */
async function expectNoWait(): Promise<void> {
  edge.pause();
  const waits: number[] = [];
  for (let i = 0; i < 6; i++) {
    const begin = performance.now();
    const response = await fetch(`http://localhost:${reserved.port}/`, { headers: { 'accept-language': 'de', 'user-agent': USER_AGENT } });
    assert.match(await response.text(), /<h1>Made for the third day of rain/);
    waits.push(Math.round(performance.now() - begin));
  }
  edge.resume();
  console.log(`pages while Parallax is stopped: ${waits.join(', ')} ms`);
  assert.ok(Math.min(...waits.slice(0, 3)) < SILENT_MS, String(waits));
}

/** Sends events through the path of the site, which the document recommends for production. */
async function buildWithOwnPath(shop: string): Promise<void> {
  const edit = (file: string, from: string, to: string) => {
    const text = readFileSync(path.join(shop, file), 'utf8');
    assert.ok(text.includes(from), `${file} has no ${from}`);
    writeFileSync(path.join(shop, file), text.replace(from, to));
  };
  edit('app/layout.tsx', 'eventsUrl={site.edgeUrl}', 'eventsUrl="/e"');
  edit('proxy.ts', '_next/|', '_next/|e/|');
  await site!.stop();
  run('npx next build', shop);
  site = await startNext(shop, reserved.port, {});
  const browser = await launchChromium();
  const page = await (await browser.newContext({ userAgent: USER_AGENT })).newPage();
  const sent = page.waitForResponse((response) => response.url() === `http://localhost:${reserved.port}/e/v1/batch`);
  await page.goto(`http://localhost:${reserved.port}/tents`);
  assert.equal((await (await sent).json()).accepted, 1);
  assert.equal((await fetch(`http://localhost:${reserved.port}/e/v1/routes?trackingId=track_demo`)).status, 404);
  await browser.close();
}

/** Builds the same site as in a container, without a server. */
function buildWithoutEdge(shop: string): void {
  const page = path.join(shop, 'app/px/[...segments]/page.tsx');
  writeFileSync(page, readFileSync(page, 'utf8').replace('{ limit: 20 }', "{ onUnreachable: 'empty' }"));
  const client = path.join(shop, 'parallax.ts');
  writeFileSync(client, readFileSync(client, 'utf8').replace(edge.url, 'http://127.0.0.1:9'));
  run('npx next build', shop);
}

test('docs/nextjs.md makes a personalized site', async () => {
  const steps = documentedSteps();
  const begin = Date.now();
  const shop = path.join(home, 'shop');
  for (const [i, step] of steps.entries()) {
    if ('write' in step) {
      mkdirSync(path.dirname(path.join(shop, step.write)), { recursive: true });
      writeFileSync(path.join(shop, step.write), actual(step.text));
      continue;
    }
    if (step.run.includes('next build')) assert.doesNotMatch(await develop(shop), /Error|⨯/);
    run(step.run, i ? shop : home);
    if (step.run.includes('next build')) {
      await reserved.release();
      site = await startNext(shop, reserved.port, {});
    }
    if (step.run.includes('curl')) await buyATent();
  }
  await until(async () => (await (await fetch(`http://localhost:${reserved.port}/tents`)).text()).includes('A roof for the third day'));
  assert.equal(steps.filter((step) => 'write' in step).length, 9);
  await expectNoWait();
  console.log(`followed docs/nextjs.md in ${Math.round((Date.now() - begin) / 1000)} s`);
  if (!process.env.PARALLAX_LONG) return;
  await buildWithOwnPath(shop);
  buildWithoutEdge(shop);
});
