// docs/nextjs.md, followed word by word in an empty directory: each file, each command, and the page in Chromium.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { USER_AGENT, launchChromium } from '../chromium.js';
import { type TestServer, startServer } from '../server.js';
import { type NextProcess, type ReservedPort, reservePort, startNext, until } from './site.js';

const ROOT = path.resolve(process.env.PARALLAX_SDK!, '..');

/** A step of the page: a `bash` block, or a block of another language after a paragraph that begins with a file name. */
type Step = { run: string } | { write: string; text: string };

function stepsOf(page: string): Step[] {
  const steps: Step[] = [];
  for (const match of page.matchAll(/(?:^`([\w./[\]-]+\.tsx?)`[^\n]*(?:\n[^\n]+)*\n\n)?^```(bash|tsx?)\n(.*?)^```$/gms)) {
    const [, name, language, text] = match;
    if (language === 'bash') steps.push({ run: text! });
    else if (name) steps.push({ write: name, text: text! });
    else assert.fail(`a block of docs/nextjs.md without a file name:\n${text}`);
  }
  return steps;
}

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
  const script = actual(commands).replace('../parallax/target/release/parallax', `"${edge.binary}"`).replace('../parallax/snapshots/demo.snapshot', `"${edge.snapshots}/demo.snapshot"`);
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

/** Builds the same site as in a container, without a server. */
function buildWithoutEdge(shop: string): void {
  const page = path.join(shop, 'app/px/[...segments]/page.tsx');
  writeFileSync(page, readFileSync(page, 'utf8').replace('{ limit: 20 }', "{ onUnreachable: 'empty' }"));
  const client = path.join(shop, 'parallax.ts');
  writeFileSync(client, readFileSync(client, 'utf8').replace(edge.url, 'http://127.0.0.1:9'));
  run('npx next build', shop);
}

test('docs/nextjs.md makes a personalized site', async () => {
  const steps = stepsOf(readFileSync(path.join(ROOT, 'docs/nextjs.md'), 'utf8'));
  const begin = Date.now();
  const shop = path.join(home, 'shop');
  for (const [i, step] of steps.entries()) {
    if ('write' in step) {
      mkdirSync(path.dirname(path.join(shop, step.write)), { recursive: true });
      writeFileSync(path.join(shop, step.write), actual(step.text));
      continue;
    }
    run(step.run, i ? shop : home);
    if (step.run.includes('next build')) {
      await reserved.release();
      site = await startNext(shop, reserved.port, {});
    }
    if (step.run.includes('curl')) await buyATent();
  }
  await until(async () => (await (await fetch(`http://localhost:${reserved.port}/tents`)).text()).includes('A roof for the third day'));
  assert.equal(steps.filter((step) => 'write' in step).length, 8);
  console.log(`followed docs/nextjs.md in ${Math.round((Date.now() - begin) / 1000)} s`);
  if (process.env.PARALLAX_LONG) buildWithoutEdge(shop);
});
