// Whole lists: a link from each list, a search, a filter by a click, and CSV with more rows than the page shows.
'use strict';
const { readFileSync } = require('node:fs');
const { Server } = require('../server.cjs');
const { ConsoleBench, SITE, go, settled } = require('./bench.cjs');

const OF_OVERVIEW = ['page', 'source', 'referrer', 'campaign', 'medium', 'term', 'content', 'country', 'language', 'device', 'browser', 'event'];
const OF_PAGES = ['page', 'entry', 'exit'];
const SHOWN = '1000';
const IN_CSV = '10000';
const PAGES = 10_001;
const BATCH = 2500;

module.exports = async function lists(at) {
  await links(at);
  const server = await Server.startDemo(at.bench.places, 'lists', ['--admin-token', at.token]);
  const long = new ConsoleBench(at.bench, server, at.token);
  await sendPages(long);
  const { page, context, messages } = await long.open(`#list?site=${SITE}&of=page`);
  await longList(long, page);
  await search(long, page);
  await filter(long, page);
  await bounds(long, page);
  at.check('lists leave no message of the browser', messages, []);
  await context.close();
  await server.stop();
};

async function sendPages(at) {
  const event = (number) => {
    const path = number % 10 === 0 ? `/sørpe/${number}` : `/many/${number}`;
    return { type: 'page', anonId: `list-${number % 977}`, properties: { path, url: `https://fjell.example${path}`, referrer: 'https://news.example/' } };
  };
  for (let begin = 0; begin < PAGES; begin += BATCH) {
    await at.send(Array.from({ length: Math.min(BATCH, PAGES - begin) }, (_, offset) => event(begin + offset)));
  }
}

// Each link keeps the range and the filters, and its page has the rows of the server.
async function links(at) {
  const { page, context } = await at.open('#health');
  for (const [from, expected] of [
    ['overview', OF_OVERVIEW],
    ['pages', OF_PAGES],
  ]) {
    await go(page, `#${from}?site=${SITE}&days=7&country=NO`);
    await page.getByRole('link', { name: /^Whole list of/ }).nth(expected.length - 1).waitFor();
    await settled(page);
    const links = await page.$$eval('main a[href^="#list?"]', (links) => links.map((link) => [link.textContent, link.getAttribute('href')]));
    const params = links.map(([, href]) => Object.fromEntries(new URLSearchParams(href.split('?')[1])));
    at.check(`links to whole lists on ${from}`, params, expected.map((of) => ({ site: SITE, days: '7', country: 'NO', of })));
    for (const [text, href] of links) {
      await go(page, href);
      await page.getByRole('heading', { level: 2, name: text.replace('Whole list of ', '') }).waitFor();
      at.check(`no failed answer, ${text}`, await settled(page), []);
      await sameRows(at, page, text);
    }
  }
  await context.close();
}

// Compares the rows with the answer to the last question of the page. A table of pages leaves out events without a page.
async function sameRows(at, page, label) {
  const asked = await lastQuestion(page);
  const { rows } = await at.ask('insights/top', asked);
  const first = { source: 'visits', campaign: 'visits', medium: 'visits', term: 'visits', content: 'visits', event: 'events', entry: 'visits', exit: 'visits' }[asked.of] ?? 'views';
  const expected = rows.map((row) => [row[first], row.visitors]).filter(([number]) => number > 0);
  at.check(`the rows of the server, ${label}`, (await rowsOf(page)).map(([, ...numbers]) => numbers.map(Number)), expected);
  at.check(`at most ${SHOWN} rows, ${label}`, asked.limit, SHOWN);
}

const lastQuestion = (page) =>
  page.evaluate(() => {
    const asked = performance.getEntriesByType('resource').filter(({ name }) => name.includes('insights/top?'));
    return Object.fromEntries(new URL(asked.at(-1).name).searchParams);
  });

const rowsOf = (page) =>
  page.$$eval('main table.bars tbody tr', (rows) => rows.map((row) => [...row.children].map((cell) => cell.textContent.trim().replaceAll(',', ''))));

// Saves the CSV. Returns its name and its lines.
async function csvOf(page) {
  const saved = page.waitForEvent('download');
  await page.getByRole('button', { name: 'CSV' }).click();
  const file = await saved;
  const lines = readFileSync(await file.path(), 'utf8').split('\r\n').slice(0, -1);
  return [file.suggestedFilename(), lines];
}

const toLine = ({ value, views, events, visitors, visits }) => [value, views, events, visitors, visits].join(',');

async function longList(at, page) {
  await page.getByText('9,001 more.').waitFor();
  at.check('a long list shows 1,000 rows', (await rowsOf(page)).length, 1000);
  const [name, lines] = await csvOf(page);
  const { rows, more } = await at.ask('insights/top', { ...(await lastQuestion(page)), limit: IN_CSV });
  at.check('the CSV is named after the list', name, `page-${SITE}.csv`);
  at.check('the CSV has 10,000 rows', [lines.length, more], [10_001, 1]);
  at.check('the CSV has the rows of the server', lines, ['value,views,events,visitors,visits', ...rows.map(toLine)]);
}

async function search(at, page) {
  await page.getByLabel('Path contains').fill('SØRPE/1');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => location.hash.includes('contains='));
  await page.waitForFunction(() => document.querySelectorAll('main table.bars tbody tr').length < 1000);
  await settled(page);
  const values = (await rowsOf(page)).map(([value]) => value);
  const expected = Array.from({ length: PAGES }, (_, number) => number).filter((number) => number % 10 === 0 && `${number}`.startsWith('1'));
  at.check('a search finds the values of the whole list', values.sort(), expected.map((number) => `/sørpe/${number}`).sort());
  const [, lines] = await csvOf(page);
  at.check('the CSV has the found rows', lines.length, 1 + expected.length);
  await page.getByLabel('Path contains').fill('nowhere');
  await page.getByRole('button', { name: 'Search' }).click();
  await page.getByText('None in this range.').waitFor();
  await page.goBack();
  await page.reload();
  await page.locator('main table.bars tbody tr').first().waitFor();
  at.check('the URL keeps the search', await page.getByLabel('Path contains').inputValue(), 'SØRPE/1');
}

async function filter(at, page) {
  await page.getByRole('button', { name: '/sørpe/1000', exact: true }).click();
  await page.locator('.chip').waitFor();
  await settled(page);
  at.check('a click filters the list', (await rowsOf(page)).map(([value]) => value), ['/sørpe/1000']);
  at.check('and stays on it', page.url().split('#')[1].startsWith('list?'), true);
  await go(page, `#list?site=${SITE}&of=referrer`);
  await page.getByText('news.example').waitFor();
  at.check('a list without a filter has no buttons', await page.locator('main table.bars button').count(), 0);
}

async function bounds(at, page) {
  for (const [of, title] of [
    ['entry', 'Entry pages'],
    ['exit', 'Exit pages'],
  ]) {
    await go(page, `#list?site=${SITE}&of=${of}`);
    await page.getByRole('heading', { level: 2, name: title }).waitFor();
    await settled(page);
    await sameRows(at, page, of);
    const [name, lines] = await csvOf(page);
    at.check(`the CSV of ${of}`, [name, lines.length > 900], [`${of}-${SITE}.csv`, true]);
    at.check(`the way back from ${of}`, await page.locator('.crumb a').textContent(), 'Pages');
  }
}
