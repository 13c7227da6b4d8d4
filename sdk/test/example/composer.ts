// The composer of the example: its sign-in, an edit that is published, and the bytes that it adds.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { before, describe, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import type { BrowserContextOptions, Page, Response } from 'playwright-core';
import { type Site, get, open, until, visitor } from './site.js';

/**
 * Bytes of scripts and styles, by gzip, that Chromium loads until a page can be edited, with the components of the site. Those of the front page
 * do not count. The composer's own tests bound those of the composer alone.
 */
const COMPOSER_BYTES_MAX = 230_000;
/** Words of the editor library and of the composer in their scripts and styles. */
const EDITOR_WORDS = /puck|px-composer/i;
/** Bound of a step on a busy machine. */
const STEP_MS = 30_000;

const USER = 'ada@example.com';
const PASSWORD = 'fünf Zelte: rot';
const AXE = path.join(process.env.PARALLAX_SDK!, '../composer/node_modules/axe-core/axe.min.js');
const NEW_HEADLINE = 'Made for the fourth day of rain';

const basic = (user: string, password: string) => `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`;

const preview = (page: Page) => page.frameLocator('iframe');

/** Opens the front page in the editor. */
export async function openFront(page: Page): Promise<void> {
  await page.getByRole('list', { name: 'Pages' }).getByRole('button').filter({ hasText: /^\/ / }).first().click();
  await preview(page).getByRole('heading', { level: 1 }).first().waitFor();
}

/** Gives a rule of the front page a wrong value and takes it back, then changes the headline and saves. */
export async function changeHeadline(page: Page, headline: string): Promise<void> {
  await page.getByRole('region', { name: 'Zones' }).getByRole('button', { name: /^hero / }).click();
  const visitors = page.getByLabel('Visitors').first();
  const audience = await visitors.inputValue();
  await visitors.selectOption({ label: 'by a condition' });
  await page.getByText('As JSON').first().click(); // the form beside it needs the words of the module
  await page.getByRole('textbox', { name: /^Condition/ }).first().fill('{ "now.hour": 25 }');
  const mistakes = page.getByRole('region', { name: 'Mistakes' });
  await mistakes.getByText('`now.hour` is never 25').waitFor();
  await visitors.selectOption(audience);
  await mistakes.waitFor({ state: 'detached' });
  await preview(page).getByRole('heading', { level: 1 }).first().click();
  await page.getByRole('complementary', { name: 'Content' }).getByLabel('Title', { exact: true }).first().fill(headline);
  await preview(page).getByText(headline).first().waitFor();
  await page.getByRole('button', { name: 'Changes (1) …' }).click();
  await page.getByLabel('What did you change?').fill('Another headline');
  await page.getByRole('button', { name: 'Save', exact: true }).click();
  await page.getByText('Saved.').waitFor();
}

export function composerCases(site: () => Site): void {
  const statusOf = async (pathname: string, authorization?: string) => (await fetch(site().url + pathname, { redirect: 'manual', headers: authorization ? { authorization } : {} })).status;

  test('without its settings the composer is 404', async () => {
    for (const pathname of ['/composer', '/api/composer/site']) {
      assert.deepEqual([await statusOf(pathname), await statusOf(pathname, basic(USER, PASSWORD))], [404, 404], pathname);
    }
  });

  describe('with its settings the composer', () => {
    before(async () => {
      const passwordHash = createHash('sha256').update(PASSWORD).digest('hex');
      Object.assign(site().environment, { SITE_DIRECTORY: site().source, COMPOSER_USER: USER, COMPOSER_PASSWORD_SHA256: passwordHash, ADMIN_URL: site().edge.admin, ADMIN_TOKEN: site().token });
      await site().restart();
    });

    /** Opens the list of the pages as a person who has signed in. */
    async function start(options: BrowserContextOptions = {}, onResponse?: (response: Response) => void): Promise<Page> {
      const context = await visitor(site(), null, { viewport: { width: 1500, height: 900 }, httpCredentials: { username: USER, password: PASSWORD }, ...options });
      context.setDefaultTimeout(STEP_MS);
      const page = await context.newPage();
      if (onResponse) page.on('response', onResponse);
      await page.goto(`${site().url}/composer`);
      await page.getByRole('heading', { name: 'Pages' }).waitFor();
      return page;
    }
    async function expectAccessible(page: Page): Promise<void> {
      await page.evaluate(readFileSync(AXE, 'utf8'));
      const found = await page.evaluate(async () => {
        const { violations } = await (globalThis as any).axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa'] });
        return violations.map(({ id, nodes }: any) => `${id}: ${nodes.map(({ html }: any) => html).join(' ')}`);
      });
      assert.deepEqual(found, []);
    }

    test('asks for the password, and no request for it reaches Parallax or sets a cookie', async () => {
      const asked = site().gateway.requests.length;
      const refused = await fetch(`${site().url}/composer`);
      assert.deepEqual([refused.status, refused.headers.get('www-authenticate')], [401, 'Basic realm="composer", charset="UTF-8"']);
      const wrong = [basic(USER, 'x'), basic('eve@example.com', PASSWORD), basic(USER, ''), basic('', ''), 'Basic', 'Basic !', `Basic ${Buffer.from(USER).toString('base64')}`, `Bearer ${PASSWORD}`];
      for (const authorization of wrong) {
        for (const pathname of ['/composer', '/api/composer/site']) assert.equal(await statusOf(pathname, authorization), 401, `${pathname} ${authorization}`);
      }
      const answer = await fetch(`${site().url}/composer`, { headers: { authorization: basic(USER, PASSWORD) } });
      assert.deepEqual([answer.status, answer.headers.get('cache-control'), answer.headers.get('set-cookie')], [200, 'private, no-cache', null]);
      const { user, roles }: any = await (await fetch(`${site().url}/api/composer/site`, { headers: { authorization: basic(USER, PASSWORD) } })).json();
      assert.deepEqual([user, roles], [{ name: 'ada', email: USER }, ['view', 'edit']]);
      // The site renders pages again meanwhile.
      assert.deepEqual(site().gateway.requests.slice(asked).filter((target) => decodeURIComponent(target).includes('composer')), []);
    });

    test('changes a headline, tells a mistake, and saves; the publication shows the headline, and the editor has sent no event', async () => {
      const file = path.join(site().source, 'routes/index.json');
      const before = readFileSync(file, 'utf8');
      const recorded = site().edge.records().length;
      const asked = site().gateway.requests.length;
      const faults: string[] = [];
      const page = await start();
      page.on('pageerror', (error) => faults.push(error.message));
      page.on('console', (message) => message.type() === 'error' && faults.push(message.text()));
      await openFront(page);
      await changeHeadline(page, NEW_HEADLINE);
      const after = readFileSync(file, 'utf8');
      assert.equal(after, before.replace('Made for the third day of rain', NEW_HEADLINE));
      assert.notEqual(after, before);

      site().publish();
      // An arm of an experiment has another headline, and each request is a new visitor.
      await until(async () => (await get(site(), '/', { 'accept-language': 'en', cookie: 'px_consent=1' })).heading === NEW_HEADLINE);
      await page.context().close();
      assert.deepEqual(faults, []);
      assert.deepEqual(site().gateway.requests.slice(asked).filter((target) => target.startsWith('POST')), []);
      assert.equal(site().edge.records().length, recorded);
    });

    test('has no fault of axe in the list of the pages, and works in a window of 400 px', async () => {
      const page = await start();
      await expectAccessible(page);
      await page.setViewportSize({ width: 400, height: 800 });
      await expectAccessible(page);
      const width = () => page.evaluate(() => document.documentElement.scrollWidth);
      assert.equal(await width(), 400);
      await openFront(page);
      assert.equal(await width(), 400);
      const seen = page.getByRole('region', { name: 'See as' });
      await seen.getByLabel('Language').fill('de-AT');
      await seen.getByRole('button', { name: 'Show the page to this visitor' }).click();
      await seen.getByRole('list', { name: 'Decisions' }).getByText('hero: deutsch').waitFor();
      await preview(page).getByText('Gemacht für den dritten Regentag').first().waitFor();
      const { x, width: wide } = (await seen.boundingBox())!;
      assert.ok(x >= 0 && x + wide <= 400, `${x} ${wide}`);
      await page.context().close();
    });

    test('adds at most 230 kB to what a page of the site loads, and nothing to that page', async () => {
      const context = await visitor(site());
      const shop = await context.newPage();
      const parts: Promise<Part>[] = [];
      shop.on('response', (response) => collect(response, parts));
      await open(site(), shop, '/');
      await shop.waitForLoadState('networkidle');
      const common = new Set((await Promise.all(parts)).map(({ pathname }) => pathname));
      assert.ok(common.size > 5, `${[...common]}`);
      for (const { pathname, body } of await Promise.all(parts)) assert.doesNotMatch(body.toString(), EDITOR_WORDS, pathname);
      await context.close();

      const loaded: Promise<Part>[] = [];
      let compiler: Promise<Buffer> | undefined;
      const page = await start({}, (response) => {
        collect(response, loaded);
        if (response.url().endsWith('.wasm')) compiler = response.body();
      });
      await openFront(page);
      await until(() => compiler !== undefined);
      const own = (await Promise.all(loaded)).filter(({ pathname }) => !common.has(pathname));
      const bytes = (parts: Part[]) => parts.reduce((sum, { body }) => sum + gzipSync(body).length, 0);
      const editor = own.filter(({ isOfWorker }) => !isOfWorker);
      const worker = own.filter(({ isOfWorker }) => isOfWorker);
      console.log(`the composer: ${bytes(editor)} bytes over the front page, its worker ${bytes(worker)}, author.wasm ${gzipSync(await compiler!).length}, by gzip`);
      assert.ok(bytes(editor) <= COMPOSER_BYTES_MAX, editor.map((part) => `${part.pathname} ${bytes([part])}`).join('\n'));
      assert.ok(editor.some(({ body }) => EDITOR_WORDS.test(body.toString())));
      await page.context().close();

    });
  });
}

/** A script or a style that a page has loaded. */
interface Part {
  pathname: string;
  isOfWorker: boolean;
  body: Buffer;
}

const isPart = (response: Response) => /\.(js|css)$/.test(new URL(response.url()).pathname);

/** Reads a script or a style. One that arrives while the page is closed counts for nothing. */
function collect(response: Response, parts: Promise<Part>[]): void {
  if (!isPart(response)) return;
  const part = readPart(response);
  part.catch(() => {});
  parts.push(part);
}

/** Reads a part before a navigation drops it. The first script of a worker has its name from Turbopack, and the others no type. */
async function readPart(response: Response): Promise<Part> {
  const { pathname } = new URL(response.url());
  const isOfWorker = response.request().resourceType() === 'other' || pathname.includes('/turbopack-worker-');
  return { pathname, isOfWorker, body: await response.body() };
}
