// Every page, in both colour schemes and on a phone: no message of the browser, no request elsewhere, nothing wider than the screen,
// and no violation of the accessibility rules.
'use strict';
const { readFileSync, mkdirSync } = require('node:fs');
const path = require('node:path');
const { SITE, go, settled } = require('./bench.cjs');

const LOOKS = [
  ['light', { colorScheme: 'light' }],
  ['dark', { colorScheme: 'dark' }],
  ['phone', { colorScheme: 'light', viewport: { width: 400, height: 800 } }],
  ['dark phone', { colorScheme: 'dark', viewport: { width: 400, height: 800 } }],
];
const BACKGROUNDS = { light: 'rgb(251, 251, 250)', dark: 'rgb(20, 23, 27)' };
const AXE_TAGS = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa'];
// With this variable, each page is also written there as a picture.
const PICTURES = process.env.CONSOLE_PICTURES;

// The pages, and a text that each must show.
function pagesOf(anonId) {
  return [
    ['overview', '', 'Visitors and page views'],
    ['list', '&of=page', 'Path contains'],
    ['sources', '', 'Campaigns'],
    ['funnels', '', 'No step is chosen'],
    ['funnels', '&step=page:/&step=product&step=purchase&group=source', 'By source'],
    ['retention', '', 'Same week'],
    ['retention', '&by=day&return=purchase', 'Same day'],
    ['paths', '', 'Choose a row to see the level after it'],
    ['pages', '', 'Entry pages'],
    ['pages', '&path=%2F', 'Zone hero'],
    ['funnels', '&step=page:/&step=purchase&group=source&compare=previous', 'The changes are against'],
    ['paths', '&compare=previous', 'The changes are against'],
    ['pages', '&path=%2F&compare=previous', 'The changes are against'],
    ['experiments', '', 'slow-front'],
    ['experiments', '&key=slow-front', 'New visitors of each arm'],
    ['audiences', '', 'german-speaking'],
    ['visitors', '', 'Newest activity first'],
    ['visitors', '&goal=purchase&days=7', 'reached “Purchase”'],
    ['visitors', `&anonId=${anonId}&route=%2F&country=NO`, 'Outline of the page'],
    ['publishing', '', 'Changed routes'],
    ['health', '', 'Memory limits'],
  ];
}

module.exports = async function pages(at) {
  const [record] = at.server.records().filter(({ site, userId }) => site === SITE && userId !== null);
  const list = pagesOf(record.anonId);
  await Promise.all(LOOKS.slice(0, 2).map((look) => visitAll(at, look, list)));
  await Promise.all(LOOKS.slice(2).map((look) => visitAll(at, look, list)));
  for (const look of LOOKS) await Promise.all([checkAccess(at, look, list), checkStates(at, look, record.anonId)]);
};

async function visitAll(at, [look, options], list) {
  const tab = await at.open(`#health?site=${SITE}`, options);
  for (const [name, params, text] of list) {
    const label = `${look}: ${name}${params}`;
    await go(tab.page, `#${name}?site=${SITE}${params}`);
    await tab.page.getByText(text).first().waitFor();
    at.check(`no failed answer, ${label}`, await settled(tab.page), []);
    const width = await tab.page.evaluate(() => document.documentElement.scrollWidth);
    at.check(`nothing is wider than the screen, ${label}`, width <= (options.viewport?.width ?? 1200), true);
    await picture(tab.page, `${name}${params ? '-one' : ''}-${look.replace(' ', '-')}`);
  }
  const background = await tab.page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  at.check(`the background, ${look}`, background, BACKGROUNDS[options.colorScheme]);
  at.check(`no message of the browser, ${look}`, tab.messages, []);
  at.check(`no request to other hosts, ${look}`, at.foreignRequests(tab), []);
  await tab.context.close();
}

async function picture(page, name) {
  if (!PICTURES) return;
  mkdirSync(PICTURES, { recursive: true });
  await page.screenshot({ path: path.join(PICTURES, `${name}.png`), fullPage: true });
}

// axe is injected, which the policy of the console forbids. So it runs in a tab without the policy.
async function openWithAxe(at, hash, options) {
  const axe = readFileSync(path.join(at.bench.places.modules, 'axe-core/axe.min.js'), 'utf8');
  const tab = await at.open(hash, { ...options, bypassCSP: true, reducedMotion: 'reduce' });
  await tab.page.evaluate(axe);
  return tab;
}

async function checkRules(at, page, label) {
  const found = await page.evaluate(async (tags) => {
    const { violations } = await globalThis.axe.run(document, { runOnly: tags });
    return violations.map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map(({ html }) => html.slice(0, 160))}`);
  }, AXE_TAGS);
  at.check(`axe, ${label}`, found, []);
}

async function checkAccess(at, [look, options], list) {
  const tab = await openWithAxe(at, `#health?site=${SITE}`, options);
  for (const [name, params, text] of list) {
    await go(tab.page, `#${name}?site=${SITE}${params}`);
    await tab.page.getByText(text).first().waitFor();
    await settled(tab.page);
    await openDetails(tab.page);
    await checkRules(at, tab.page, `${look}: ${name}${params}`);
  }
  await go(tab.page, `#overview?site=${SITE}`);
  const motion = await tab.page.locator('.dot').evaluate((dot) => getComputedStyle(dot).animationName);
  at.check(`no message of the browser with all tables open, ${look}`, tab.messages, []);
  at.check(`nothing moves with reduced motion, ${look}`, motion, 'none');
  await tab.context.close();
}

// The states that a page has only for a while: the question for the token, a dialog, filters, and answers that fail.
async function checkStates(at, [look, options], anonId) {
  const { page, context } = await openWithAxe(at, `#overview?site=${SITE}`, { ...options, token: null });
  await page.locator('input[name=token]').waitFor();
  await checkRules(at, page, `${look}: the question for the token`);
  await page.locator('input[name=token]').fill('wrong');
  await page.keyboard.press('Enter');
  await page.getByRole('alert').waitFor();
  await checkRules(at, page, `${look}: a wrong token`);
  await page.locator('input[name=token]').fill(at.token);
  await page.keyboard.press('Enter');
  await page.locator('.plot canvas').waitFor();
  for (const [label, params, open] of [
    ['a dialog', `visitors?site=${SITE}&anonId=${anonId}`, () => page.getByText('Erase …').click()],
    ['filters', `overview?site=${SITE}&country=NO&event=Order+Placed`, () => page.locator('.chip').first().waitFor()],
    ['filters of zones', `pages?site=${SITE}&path=%2F&country=NO`, () => page.getByText('The filters do not apply').waitFor()],
    ['a site that is not published', 'overview?site=nobody', () => page.getByText('No published site').waitFor()],
    ['dates', `overview?site=${SITE}&from=2026-01-01&to=2026-01-03`, () => page.getByLabel('Last day').waitFor()],
    ['an experiment that is not known', `experiments?site=${SITE}&key=nobody`, () => page.getByRole('alert').waitFor()],
    ['no new visitors', `retention?site=${SITE}&from=2020-01-01&to=2020-01-08`, () => page.getByText('No new visitors').first().waitFor()],
    ['no visitor', `visitors?site=${SITE}&goal=purchase&from=2020-01-01&to=2020-01-08`, () => page.getByText('No visitor reached').waitFor()],
    ['a search without a result', `visitors?site=${SITE}`, () => search(page)],
    ['no source', `sources?site=${SITE}&from=2020-01-01&to=2020-01-08`, () => page.getByText('No visits in this range').waitFor()],
    [
      'an empty funnel',
      `funnels?site=${SITE}&from=2020-01-01&to=2020-01-08&step=page:/&step=purchase&group=source`,
      () => page.getByText('No visitor reached').waitFor(),
    ],
    ['a path that nobody saw', `paths?site=${SITE}&path=/nowhere`, () => page.getByText('No visit saw').waitFor()],
    ['answers that fail', `overview?site=${SITE}&days=7`, () => page.getByRole('alert').waitFor()],
  ]) {
    if (label === 'answers that fail') await page.route('**/insights/**', (route) => route.abort());
    await go(page, `#${params}`);
    await open();
    await settled(page);
    const width = await page.evaluate(() => document.documentElement.scrollWidth);
    at.check(`nothing is wider than the screen, ${look}: ${label}`, width <= (options.viewport?.width ?? 1200), true);
    await checkRules(at, page, `${look}: ${label}`);
    await picture(page, `${label.replaceAll(' ', '-')}-${look.replace(' ', '-')}`);
    if (label === 'a dialog') await page.keyboard.press('Escape');
  }
  await context.close();
}

async function search(page) {
  await page.getByLabel('Whole text').fill('nobody@fjell.example');
  await page.getByText('Search', { exact: true }).click();
  await page.getByText('0 visitors have this text').waitFor();
}

// Opens the tables, so that they are checked too.
async function openDetails(page) {
  for (const summary of (await page.$$('main details:not([open]) > summary')).slice(0, 6)) await summary.click();
}

Object.assign(module.exports, { LOOKS, checkRules, openDetails, openWithAxe, picture });
