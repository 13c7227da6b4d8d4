// Every task by keyboard alone: sign in, choose a page, filter, read the table of a chart, find a visitor, explain a page, also one of the past, erase.
'use strict';
const { spawnSync } = require('node:child_process');
const { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } = require('node:fs');
const { tmpdir } = require('node:os');
const path = require('node:path');
const { SITE, settled } = require('./bench.cjs');

const IPHONE =
  'Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Mobile/15E148 Safari/604.1';

module.exports = async function tasks(at) {
  const context = { userAgent: IPHONE, locale: 'de-DE', country: 'DE' };
  await at.send([
    { type: 'page', anonId: 'keyboard', properties: { path: '/' }, variants: '', context },
    { type: 'track', anonId: 'keyboard', event: 'Product Viewed' },
  ]);
  const tab = await at.open(`#overview?site=${SITE}`, { token: null });
  await signIn(at, tab);
  await filter(at, tab.page);
  await readTable(at, tab.page);
  await findVisitor(at, tab.page);
  await explain(at, tab.page);
  await explainPast(at, tab.page);
  await erase(at, tab.page);
  await tab.context.close();
};

// Presses Tab until the focused element has this name, as a person would.
async function tabTo(page, name, key = 'Tab') {
  const focused = () =>
    page.evaluate(() => {
      const element = document.activeElement;
      return (element.getAttribute('aria-label') ?? element.labels?.[0]?.textContent ?? element.textContent).trim();
    });
  for (let presses = 0; presses < 150; presses += 1) {
    if ((await focused()) === name) return;
    await page.keyboard.press(key);
  }
  throw new Error(`no element "${name}" takes the focus`);
}

async function signIn(at, { page }) {
  await page.locator('input[name=token]').waitFor();
  const focused = await page.evaluate(() => document.activeElement.name);
  at.check('the token has the focus', focused, 'token');
  await page.keyboard.type(at.token);
  await page.keyboard.press('Enter');
  await page.locator('.plot canvas').waitFor();
  at.check('a token opens the page that was asked for', await page.title(), 'Overview – Parallax');
}

async function filter(at, page) {
  await settled(page);
  await tabTo(page, '(direct)');
  await page.keyboard.press('Enter');
  await page.locator('.chip').waitFor();
  at.check('Enter on a row filters', await page.locator('.chip bdi').textContent(), '(direct)');
  await tabTo(page, 'Remove the filter source: (direct)', 'Shift+Tab');
  const ring = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
  at.check('the focus is visible', ring, 'solid');
  await page.keyboard.press('Enter');
  await page.locator('.chip').waitFor({ state: 'detached' });
}

async function readTable(at, page) {
  await settled(page);
  await tabTo(page, 'As a table');
  await page.keyboard.press('Enter');
  await tabTo(page, 'Visitors and page views, as a table');
  const before = await page.evaluate(() => document.activeElement.scrollTop);
  await page.keyboard.press('End');
  await page.waitForFunction((before) => document.activeElement.scrollTop > before, before);
  at.check('the keys scroll the table of a chart', true, true);
}

async function findVisitor(at, page) {
  await tabTo(page, 'Visitors', 'Shift+Tab');
  await page.keyboard.press('Enter');
  await page.locator('input[name=id]').waitFor();
  await tabTo(page, 'ID');
  await page.keyboard.type('keyboard');
  await page.keyboard.press('Enter');
  await page.getByText('Product Viewed').first().waitFor();
  const asked = (await page.evaluate(() => performance.getEntriesByType('navigation')[0].name)).includes('keyboard');
  at.check('the ID is only in the fragment', [asked, page.url().split('#')[1].includes('anonId=keyboard')], [false, true]);
}

async function explain(at, page) {
  const form = page.locator('form', { hasText: 'Explain' });
  const values = [form.getByLabel('Language').inputValue(), form.getByLabel('Country').inputValue()];
  values.push(form.getByLabel('Device').evaluate((select) => select.selectedOptions[0].textContent));
  const expected = ['de', 'DE', 'as recorded: mobile, iOS, Safari'];
  at.check('the form has the recorded context', await Promise.all(values), expected);
  at.check('and says so', await page.getByText('Device, language and country as recorded on').count(), 1);
  await tabTo(page, 'Explain');
  await page.keyboard.press('Enter');
  await page.getByText('Outline of the page').first().waitFor();
  await settled(page);
  const decided = (
    await at.ask('v1/variants', { route: '/', anonId: 'keyboard', userAgent: IPHONE, locale: 'de', country: 'DE', url: '/' })
  ).selected;
  const shown = await page.$$eval('.decision h3', (heads) =>
    Object.fromEntries(heads.map((head) => [...head.querySelectorAll('bdi')].map((text) => text.textContent))),
  );
  at.check('the explained variants are those of the server', shown, decided);
  const outlined = await page.$$eval('.outline .zone-name .pill', (pills) => pills.length);
  at.check('the outline names the variant of each zone', outlined, Object.keys(decided).length);
  await copyAsTest(at, page);
}

// The copied case passes on the site.
async function copyAsTest(at, page) {
  await page.getByText('Copy as test').click();
  const copied = await page.getByRole('region', { name: 'The test' }).textContent();
  const directory = mkdtempSync(path.join(tmpdir(), 'parallax-console-case-'));
  cpSync(path.join(__dirname, '../../../snapshots/demo'), directory, { recursive: true });
  rmSync(path.join(directory, 'tests'), { recursive: true, force: true });
  mkdirSync(path.join(directory, 'tests'));
  writeFileSync(path.join(directory, 'tests/copied.json'), copied);
  const { status, stdout, stderr } = spawnSync(at.bench.places.parallax, ['test', directory], { encoding: 'utf8' });
  rmSync(directory, { recursive: true });
  at.check('the copied test passes', status === 0 ? '' : copied + stdout + stderr, '');
}

async function explainPast(at, page) {
  await tabTo(page, 'Why this page?');
  await page.keyboard.press('Enter');
  const card = page.getByRole('region', { name: 'The page that this visitor got then' });
  await card.locator('.decision').first().waitFor();
  const [record] = (await at.ask('visitors/records', { anonId: 'keyboard' })).records.filter(({ type }) => type === 'page');
  const { decisions, differs } = await at.ask('visitors/explain', { anonId: 'keyboard', seq: record.seq });
  const zones = await card.locator('.decision h3 > bdi').allTextContents();
  at.check('a page of the past has the decisions of the server', zones, decisions.map(({ zone }) => zone));
  at.check('it says if the record differs', await card.getByText('The record says').count(), differs ? 1 : 0);
}

async function erase(at, page) {
  await tabTo(page, 'Erase …', 'Shift+Tab');
  await page.keyboard.press('Enter');
  await page.locator('dialog[open]').waitFor();
  await page.keyboard.press('Escape');
  // A closed dialog stays in the page until its event is handled.
  await page.locator('dialog').waitFor({ state: 'detached' });
  at.check('Escape erases nothing', (await at.ask('visitors', { anonId: 'keyboard' })).known, true);
  await tabTo(page, 'Erase …', 'Shift+Tab');
  await page.keyboard.press('Enter');
  await page.locator('dialog[open]').waitFor();
  const button = page.getByText('Erase for ever');
  await tabTo(page, 'ID of the visitor');
  await page.keyboard.type('keyboar');
  at.check('another ID does not confirm', await button.isDisabled(), true);
  await page.keyboard.type('d');
  at.check('the ID confirms', await button.isEnabled(), true);
  await page.keyboard.press('Enter');
  await page.getByText('Nothing of the visitor is left on disk.').waitFor();
  at.check('an erased visitor is not known', (await at.ask('visitors', { anonId: 'keyboard' })).known, false);
  const left = at.server.records().filter(({ anonId }) => anonId === 'keyboard').length;
  at.check('an erased visitor has no records', left, 0);
}

Object.assign(module.exports, { tabTo });
