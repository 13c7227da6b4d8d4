// The quick starts of docs/sdk.md that need no build: their text as it is, in Chromium with a real server.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { Browser } from 'playwright-core';
import { USER_AGENT, launchChromium } from '../chromium.js';
import { type TestServer, startServer } from '../server.js';

const DOCUMENT = readFileSync(path.resolve(process.env.PARALLAX_SDK!, '../docs/sdk.md'), 'utf8');

/** Returns the first block of a section. */
function blockOf(section: string): string {
  const text = DOCUMENT.split(`\n### ${section}\n`)[1]?.split('\n### ')[0];
  const [, block] = /^```html\n(.*?)^```$/ms.exec(text ?? '') ?? [];
  assert.ok(block, `docs/sdk.md has no block in "${section}"`);
  return block;
}

describe('the quick starts of docs/sdk.md', () => {
  let edge: TestServer;
  let browser: Browser;
  before(async () => {
    edge = await startServer();
    browser = await launchChromium();
  });
  after(async () => {
    await browser?.close();
    await edge?.stop();
  });

  /** Serves a page and opens it. Returns its heading after the first view was recorded, and that view. */
  async function view(html: string, locale: string) {
    const actual = html.replaceAll('http://127.0.0.1:8080', edge.url);
    const server = createServer((_, response) => response.writeHead(200, { 'content-type': 'text/html; charset=utf-8' }).end(actual));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const context = await browser.newContext({ userAgent: USER_AGENT, locale });
    const page = await context.newPage();
    const sent = page.waitForResponse((response) => response.url() === `${edge.url}/v1/batch`);
    await page.goto(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
    await sent;
    const heading = await page.locator('h1').textContent();
    const { value } = (await context.cookies()).find(({ name }) => name === 'anon_id')!;
    const own = (await edge.recorded((all) => all.some(({ anonId }) => anonId === value))).filter(({ anonId }) => anonId === value);
    await context.close();
    server.close();
    return { heading, own: own.map(({ type, path: viewed, variants }) => [type, viewed, variants]) };
  }

  test('One tag', async () => {
    const page = `<!doctype html><title>Shop</title><h1>Shop</h1>${blockOf('One tag')}`;
    assert.deepEqual(await view(page, 'en-GB'), { heading: 'Shop', own: [['page', '/', null]] });
  });

  // The machine of the tests is busy. Another test shows that the guard leaves the page its own heading.
  test('Plain HTML, personalized', async () => {
    const { heading, own } = await view(blockOf('Plain HTML, personalized').replace('timeout(500)', 'timeout(20_000)'), 'de-DE');
    assert.deepEqual([heading, own.length, own[0]!.slice(0, 2)], ['Gemacht für den dritten Regentag', 1, ['page', '/']]);
    assert.match(own[0]![2]!, /^hero:deutsch(,|$)/); // an experiment may choose another zone
  });
});
