// Publications, published versions and links to previews in the editor.
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, beforeEach, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { Page } from 'playwright-core';
import { publishWithProgram } from '../../src/server/index.js';
import { PARALLAX, type Team, type TeamOptions, bundle, startTeam } from './team.js';

/** The project of the tests, with the packed package. */
const PROJECT = path.join(path.dirname(fileURLToPath(import.meta.url)), '../..');
const STEP_MS = 20_000;
const SECRET = 'a secret of the previews, for tests';

describe('after a save', () => {
  let team: Team;
  let page: Page;
  let snapshots: string;
  let built: Awaited<ReturnType<typeof bundle>>;
  const faults: string[] = [];

  before(async () => {
    built = await bundle(PROJECT);
  });
  beforeEach(async () => {
    if (snapshots) rmSync(snapshots, { recursive: true });
    snapshots = mkdtempSync(path.join(tmpdir(), 'parallax-snapshots-'));
    await begin({ previewSecret: SECRET, publish: publishWithProgram({ program: PARALLAX, snapshots }) });
  });
  after(async () => {
    await team?.stop();
    rmSync(snapshots, { recursive: true });
  });

  async function begin(options: TeamOptions): Promise<void> {
    await team?.stop();
    team = await startTeam(built, options);
    faults.length = 0;
    page = await newPage();
    await page.goto(team.url);
    await page.getByRole('heading', { name: 'Pages' }).waitFor();
  }
  /** Opens a tab of another browser profile. */
  async function newPage(): Promise<Page> {
    const context = await team.browser.newContext({ viewport: { width: 1500, height: 900 } });
    context.setDefaultTimeout(STEP_MS);
    const tab = await context.newPage();
    tab.on('pageerror', (error) => faults.push(error.message));
    tab.on('console', (message) => message.type() === 'error' && !/Failed to load resource/.test(message.text()) && faults.push(message.text()));
    return tab;
  }
  const write = (file: string, text: string) => writeFileSync(path.join(team.directory, file), text);
  const text = (file: string) => readFileSync(path.join(team.directory, file), 'utf8');
  const saved = () => page.getByRole('region', { name: 'Saved site' });
  const published = () => readdirSync(snapshots).filter((name) => name.endsWith('.snapshot'));
  /** Makes a link to a page, and returns its URL. */
  async function linkTo(file: string, days?: number): Promise<string> {
    if ((await saved().getByLabel('Days until it expires').count()) === 0) await saved().getByRole('button', { name: 'Preview link …' }).click();
    await saved().getByRole('combobox', { name: 'Page', exact: true }).selectOption(file);
    if (days !== undefined) await saved().getByLabel('Days until it expires').fill(`${days}`);
    await saved().getByRole('button', { name: 'Make the link' }).click();
    return saved().getByLabel(/^Link, valid until/).inputValue();
  }
  /** Writes into the title of a page, in its first block. */
  async function edit(route: string, title: string): Promise<void> {
    await page.getByRole('list', { name: 'Pages' }).getByRole('button').filter({ hasText: new RegExp(`^${route} `) }).first().click();
    await page.frameLocator('iframe').locator('[data-zone] h1, [data-zone] h2').first().click();
    await page.getByRole('complementary', { name: 'Content' }).getByLabel('Title', { exact: true }).first().fill(title);
    await page.frameLocator('iframe').getByText(title).first().waitFor();
  }
  async function save(button: string): Promise<void> {
    await page.getByRole('button', { name: /^Changes/ }).click();
    await page.getByLabel('What did you change?').fill('Another title');
    await page.getByRole('button', { name: button, exact: true }).click();
    await page.getByText('Saved.').waitFor();
  }

  test('the site is published after a save and from the list of pages, and an earlier version again', async () => {
    await edit('/about', 'Published with the save');
    assert.equal(await saved().count(), 0, 'nothing is published beside unsaved changes');
    await save('Save and publish');
    await saved().getByText(/^Version \d+ is published\./).waitFor();
    const [first] = published();
    await saved().getByRole('button', { name: 'Publish', exact: true }).click();
    const second = `${BigInt(/\d+/.exec(first!)![0]) + 1n}`;
    await saved().getByText(/^Version \d+ is published\./).filter({ hasNotText: /\d+/.exec(first!)![0] }).waitFor();
    assert.equal(published().length, 2);
    assert.ok(published().every((name) => BigInt(/\d+/.exec(name)![0]) <= BigInt(second) + 60n));
    await page.getByRole('button', { name: 'History' }).click();
    const versions = page.getByRole('list', { name: 'Versions' }).getByRole('listitem');
    await versions.nth(1).waitFor();
    assert.match((await versions.first().textContent())!, /published$/);
    await page.getByRole('button', { name: /^Publish version \d+ again/ }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('button', { name: 'Cancel' }).click();
    assert.equal(published().length, 2, 'nothing has changed without the answer');
    await page.getByRole('button', { name: /^Publish version \d+ again/ }).click();
    await dialog.getByRole('button', { name: 'Take back the later versions' }).click();
    await page.getByText(/^Version \d+ is published again\./).waitFor();
    assert.deepEqual(published(), [first]);
    await versions.nth(1).waitFor({ state: 'detached' });
    assert.deepEqual(faults, []);
  });

  test('mistakes of a site that was not published are listed, and the save stays', async () => {
    write('routes/about.json', text('routes/about.json').replace('"path"', '"pathx"'));
    await page.reload();
    await saved().getByRole('button', { name: 'Publish', exact: true }).click();
    await saved().getByText('Not published. The site has mistakes').waitFor();
    await saved().getByRole('list', { name: 'Mistakes of the site' }).getByText('routes/about.json:2').waitFor();
    await saved().getByText('unknown member `pathx`').waitFor();
    assert.deepEqual(published(), []);
  });

  test('who may not publish sees the versions and no button, and without a publisher there is none', async () => {
    await saved().getByRole('button', { name: 'Publish', exact: true }).click();
    await saved().getByText(/is published\./).waitFor();
    team.roles = ['view'];
    await page.reload();
    await page.getByRole('heading', { name: 'Pages' }).waitFor();
    assert.equal(await saved().getByRole('button').count(), 0);
    await page.getByRole('button', { name: 'History' }).click();
    await page.getByRole('list', { name: 'Versions' }).getByRole('listitem').first().waitFor();
    assert.equal(await page.getByRole('button', { name: /^Publish version/ }).count(), 0);
    await begin({});
    assert.equal(await saved().getByRole('button').count(), 0);
    await edit('/about', 'No publisher');
    await page.getByRole('button', { name: /^Changes/ }).click();
    assert.equal(await page.getByRole('button', { name: 'Save and publish' }).count(), 0);
  });

  test('a link shows the saved page to a colleague without a session, in each version of its zones', async () => {
    await edit('/', 'Only in the preview');
    await save('Save');
    const url = await linkTo('routes/index.json', 3);
    assert.ok(url.startsWith(`${team.url}/#preview=`), url);
    (team as { user: unknown }).user = null;
    const colleague = await newPage();
    const requests: string[] = [];
    const tokens: (string | null)[] = [];
    colleague.on('request', (request) => {
      requests.push(`${request.method()} ${new URL(request.url()).pathname}`);
      if (request.url().includes('/api/')) tokens.push(request.headers()['x-preview'] ?? null);
      assert.ok(!request.url().includes(url.split('=')[1]!), 'no token in a URL');
    });
    await colleague.goto(url);
    const bar = colleague.getByRole('banner', { name: 'Preview' });
    await bar.getByText('Preview of /').waitFor();
    assert.match((await bar.textContent())!, /The link was made by Ada\. It is valid until/);
    await colleague.getByText('Only in the preview').first().waitFor();
    await bar.getByRole('combobox', { name: 'hero', exact: true }).selectOption('deutsch');
    await colleague.getByText('Gemacht für den dritten Regentag').first().waitFor();
    assert.match((await bar.getByRole('combobox', { name: 'hero', exact: true }).getByRole('option').allTextContents()).join(' | '), /deutsch: Reads German, wherever they are/);
    const zones = await bar.getByRole('combobox').all();
    for (const zone of zones) {
      for (const option of await zone.getByRole('option').evaluateAll((options) => options.map((one) => (one as HTMLOptionElement).value))) await zone.selectOption(option);
    }
    assert.ok(zones.length > 1);
    for (const name of ['Save', 'History', 'Publish', 'No changes']) assert.equal(await colleague.getByRole('button', { name }).count(), 0, name);
    await colleague.locator('[data-zone] a[href]').first().click();
    assert.equal(colleague.url(), url, 'a link of the page leads nowhere');
    assert.deepEqual(requests.filter((request) => !/ \/(img|fonts)\//.test(request)).sort(), ['GET /', 'GET /api/composer/preview', 'GET /page.css', 'GET /page.js'].sort());
    assert.deepEqual([tokens, team.others, faults], [[url.split('=')[1]], [], []]);
    assert.deepEqual(await colleague.context().cookies(), []);
    assert.equal(await colleague.evaluate(() => localStorage.length), 0);
    await colleague.evaluate(readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8'));
    const violations = await colleague.evaluate(async () => (await (globalThis as any).axe.run({ include: [['.px-composer']] }, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa'] })).violations.map(({ id }: any) => id));
    assert.deepEqual(violations, []);
  });

  test('a link that is not valid, and one whose page has changed, say so', async () => {
    const url = await linkTo('routes/about.json');
    const colleague = await newPage();
    await colleague.goto(`${url.slice(0, -1)}${url.endsWith('A') ? 'B' : 'A'}`);
    await colleague.getByRole('alert').getByText('The link of this preview is not valid or has expired; ask for a new one.').waitFor();
    await colleague.goto(url);
    await colleague.getByRole('banner', { name: 'Preview' }).waitFor();
    write('routes/about.json', text('routes/about.json').replace('"title": "', '"title": "X'));
    await colleague.reload();
    await colleague.getByRole('alert').getByText('The page has changed since this link was made. Ask for a new one.').waitFor();
    await saved().getByRole('button', { name: 'Make the link' }).click();
    await saved().getByRole('alert').getByText('The page has changed since this link was made.').waitFor();
  });

  test('axe finds nothing in the parts after a save', async () => {
    await saved().getByRole('button', { name: 'Publish', exact: true }).click();
    await saved().getByText(/is published\./).waitFor();
    await saved().getByRole('button', { name: 'Publish', exact: true }).click();
    await saved().getByText('Publishing …').waitFor({ state: 'detached' });
    await linkTo('routes/about.json');
    await page.evaluate(readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8'));
    const check = async (place: string) => {
      const found = await page.evaluate(async () => (await (globalThis as any).axe.run({ include: [['.px-composer']] }, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa'] })).violations.map(({ id, nodes }: any) => `${id}: ${nodes.map(({ html }: any) => html).join(' ')}`));
      assert.deepEqual(found, [], place);
    };
    await check('a link');
    await page.getByRole('button', { name: 'History' }).click();
    await page.getByRole('button', { name: /^Publish version/ }).first().click();
    await check('versions');
  });
});
