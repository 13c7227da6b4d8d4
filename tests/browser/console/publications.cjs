// The publications below a chart: in the words of the server, by keyboard and by a click on their mark, on a phone, and with axe.
'use strict';
const path = require('node:path');
const { Server, compileDemo } = require('../server.cjs');
const { ConsoleBench, SITE, go, settled } = require('./bench.cjs');
const { LOOKS, checkRules, openDetails, openWithAxe, picture } = require('./pages.cjs');
const { tabTo } = require('./tasks.cjs');

const OVERVIEW = `#overview?site=${SITE}`;
const EXPERIMENT = `#experiments?site=${SITE}&key=slow-front`;
const HOUR_MS = 3_600_000;
const HOSTILE_ERROR = '<img src=x onerror=globalThis.hacked=1>';

module.exports = async function publications(at) {
  const server = await Server.startDemo(at.bench.places, 'publications', ['--admin-token', at.token]);
  const bench = new ConsoleBench(at.bench, server, at.token);
  await publishNext(bench);
  const tab = await bench.open(OVERVIEW);
  await ofOverview(bench, tab.page);
  await ofExperiment(bench, tab.page);
  at.check('publications leave no message of the browser', tab.messages, []);
  await ofLostAnswer(bench, tab.page);
  await tab.context.close();
  for (const look of LOOKS) await looks(bench, look);
  await server.stop();
};

// Publishes a second version in which an experiment and the holdout differ.
async function publishNext(at) {
  const page = (number) => ({ type: 'page', anonId: `publications-${number}`, properties: { path: '/' }, experiments: 'slow-front:slow' });
  await at.send(Array.from({ length: 5 }, (_, number) => page(number)));
  const changes = { version: 2, holdout: { share: 0.2 } };
  compileDemo(at.bench.places, changes, path.join(at.server.snapshots, 'second.snapshot'), { 'slow-front': { coverage: 0.5 } });
  while ((await at.ask('sites')).sites[0].version !== '2');
}

const itemsOf = (page) => page.$$eval('.publications > li', (items) => items.map((item) => item.textContent.trim()));

// Shows a page and waits for its publications.
async function show(page, hash) {
  await go(page, hash);
  await page.locator('.publications').waitFor();
  await settled(page);
}

// Shows the overview at another time. Only the clock is fixed, because a page can lose a timer when timers are replaced.
async function setTime(page, ms) {
  await show(page, OVERVIEW);
  await go(page, `#audiences?site=${SITE}`);
  await page.getByText('german-speaking').first().waitFor();
  await settled(page);
  await page.evaluate((ms) => {
    Date.now = () => ms;
  }, ms);
  await show(page, OVERVIEW);
}

// Clicks the mark at the present day, which is the right edge of the chart.
async function clickMark(page) {
  const over = page.locator('.plot .u-over');
  const { width, height } = await over.boundingBox();
  await over.click({ position: { x: width - 3, y: height / 2 } });
}

const rangeOf = (page) => page.evaluate(() => ['from', 'to', 'compare'].map((name) => new URLSearchParams(location.hash.split('?')[1]).get(name)));

async function ofOverview(at, page) {
  const { publications } = await at.ask('insights/publications');
  // Within the hour of the second publication.
  await setTime(page, Date.parse(publications[0].servedFrom));
  const { experiments, zones, routes } = publications[0].changes;
  at.check('the second version changes an experiment', experiments.total, 1);
  const items = await itemsOf(page);
  at.check('each publication has an entry, newest first', items.map((item) => item.slice(0, 10)), ['Version 2,', 'Version 1,']);
  const words = [`1 experiment, ${zones.total} zone`, `${routes.total} page`, 'holdout'];
  at.check('an entry has the numbers of the server', words.filter((word) => !items[0].includes(word)), []);
  at.check('a version has no numbers within its first hour', await page.locator('.publications a').count(), 1);
  // The first version was served until the second one.
  const [second, first] = publications.map(({ servedFrom }) => Date.parse(servedFrom));
  const time = (ms) => new Date(ms).toISOString();
  const ranges = [time(first), time(second), `${time(2 * first - second)}..${time(first)}`];
  await tabTo(page, 'Before and after version 1');
  await page.keyboard.press('Enter');
  await page.getByLabel('First day', { exact: true }).waitFor();
  at.check('Enter compares the time since a publication with the time before', await rangeOf(page), ranges);
  await settled(page);
  at.check('it says so', await page.getByText('The changes are against').count(), 1);
  await page.getByRole('link', { name: 'Pages', exact: true }).click();
  await page.getByRole('heading', { name: 'Entry pages' }).waitFor();
  at.check('the page of the variants has the same ranges', await rangeOf(page), ranges);
  await show(page, OVERVIEW);
  await page.locator('.publications summary', { hasText: 'Version 2' }).click();
  await show(page, OVERVIEW);
  await clickMark(page);
  const focused = await page.evaluate(() => document.activeElement.textContent);
  at.check('a click on the mark of a new version opens its details', focused.startsWith('Version 2,'), true);
  await ofZone(at, page, second);
}

// Two hours later, the paths of a changed zone lead to its variants before and after.
async function ofZone(at, page, second) {
  const later = second + 2 * HOUR_MS;
  await setTime(page, later);
  await page.locator('.publications summary', { hasText: 'Version 2' }).click();
  const link = page.locator('.publications details a').first();
  const path = await link.textContent();
  await link.click();
  await page.getByRole('heading', { name: path, exact: true }).waitFor();
  const end = Math.floor(later / HOUR_MS) * HOUR_MS;
  const time = (ms) => new Date(ms).toISOString();
  at.check('a path of a zone has both ranges', await rangeOf(page), [time(second), time(end), `${time(2 * second - end)}..${time(second)}`]);
  at.check('no answer about the variants fails', await settled(page), []);
  at.check('and shows its variants', await page.getByText('The changes are against').count(), 1);
}

async function ofExperiment(at, page) {
  await show(page, EXPERIMENT);
  await clickMark(page);
  await page.getByText('slow-front: ramped').waitFor();
  const focused = await page.evaluate(() => document.activeElement.textContent);
  at.check('a click on a mark opens the details and moves the focus there', focused.startsWith('Version 2,'), true);
  await page.keyboard.press('Enter');
  await page.getByText('slow-front: ramped').waitFor({ state: 'hidden' });
  at.check('Enter closes them', await page.locator('.publications details[open]').count(), 0);
}

async function ofLostAnswer(at, page) {
  const refuse = (route) => route.fulfill({ status: 400, body: JSON.stringify({ detail: HOSTILE_ERROR }) });
  await page.route('**/insights/publications?**', refuse);
  await go(page, `${OVERVIEW}&days=7`);
  await page.getByText(`The publications are not known: ${HOSTILE_ERROR}`).waitFor();
  at.check('the chart is there without publications', await page.locator('.plot canvas').count(), 1);
  at.check('no text of the server is code', await page.evaluate(() => globalThis.hacked), undefined);
}

async function looks(at, [look, options]) {
  const tab = await openWithAxe(at, OVERVIEW, options);
  for (const [label, hash] of [
    ['publications', OVERVIEW],
    ['publications of an experiment', EXPERIMENT],
  ]) {
    await show(tab.page, hash);
    await openDetails(tab.page);
    const width = await tab.page.evaluate(() => document.documentElement.scrollWidth);
    at.check(`nothing is wider than the screen, ${look}: ${label}`, width <= (options.viewport?.width ?? 1200), true);
    await checkRules(at, tab.page, `${look}: ${label}`);
    await picture(tab.page, `${label.replaceAll(' ', '-')}-${look.replace(' ', '-')}`);
  }
  await tab.context.close();
}
