// The numbers on the pages are those of the API.
'use strict';
const { SITE, go, settled } = require('./bench.cjs');

const withoutSeparators = (text) => Number(text.replaceAll(/[^\d.-]/g, ''));

// Returns the tiles by their labels. A shortened number has the whole one as its title.
const tilesOf = (page) =>
  page.$$eval('.tiles:not(.goals) .tile', (tiles) =>
    Object.fromEntries(
      tiles.map((tile) => {
        const value = tile.querySelector('.tile-value');
        return [tile.querySelector('.tile-label').textContent, value.title || value.textContent];
      }),
    ),
  );

// Returns the rows of a bar table: value and numbers.
const barsOf = (page, label) =>
  page.$$eval(`table[aria-label="${label}"] tbody tr`, (rows) =>
    rows.map((row) => [...row.children].map((cell) => cell.textContent.trim())),
  );

module.exports = async function numbers(at) {
  const { page, context } = await at.open(`#overview?site=${SITE}&days=7`);
  await page.locator('.plot canvas').waitFor();
  await settled(page);
  await overview(at, page);
  await filtered(at, page);
  await experiment(at, page);
  await context.close();
};

// Returns the paths that the page has asked, but for the polls of the live numbers.
const askedPaths = (page) =>
  page.evaluate(() => {
    const paths = performance.getEntriesByType('resource').map(({ name }) => new URL(name).pathname);
    return paths.filter((path) => path.startsWith('/insights/') && path !== '/insights/live');
  });

async function overview(at, page) {
  await page.locator('.publications').waitFor();
  const asked = ['/insights/overview', '/insights/overview', '/insights/publications', '/insights/top'];
  at.check('the overview asks once, and then for the goals and the publications', (await askedPaths(page)).sort(), asked);
  const range = await rangeOf(page);
  const { totals, series } = await at.ask('insights/overview', range);
  const tiles = await tilesOf(page);
  const shown = Object.fromEntries(Object.entries(tiles).map(([label, text]) => [label, withoutSeparators(text)]));
  const { visitors, visits, views, events, personalized } = totals;
  at.check('the tiles', shown, { Visitors: visitors, Visits: visits, 'Page views': views, Events: events, 'Saw a variant': personalized });
  await page.getByText('As a table').click();
  await page.locator('table[aria-label="Visitors and page views"] tbody tr').first().waitFor();
  const rows = await page.$$eval('table[aria-label="Visitors and page views"] tbody tr', (rows) =>
    rows.map((row) => [...row.children].map((cell) => cell.textContent)),
  );
  const table = rows.map(([, visitors, views]) => [withoutSeparators(visitors), withoutSeparators(views)]);
  const past = series.t.filter((t) => t * 1000 <= Date.now());
  at.check('the table of the chart', table, past.map((_, index) => [series.visitors[index], series.views[index]]).reverse());
  const top = await at.ask('insights/top', { ...range, of: 'source', limit: '8' });
  const sources = (await barsOf(page, 'Sources')).map(([value, visits, visitors]) => [
    value,
    withoutSeparators(visits),
    withoutSeparators(visitors),
  ]);
  at.check(
    'the sources',
    sources,
    top.rows.map(({ value, visits, visitors }) => [value, visits, visitors]),
  );
  const live = await at.ask('insights/live');
  at.check('the live number', withoutSeparators(await page.locator('.live b').first().textContent()), live.visitors);
}

async function filtered(at, page) {
  const range = await rangeOf(page);
  await page.locator('table[aria-label="Countries"] button').first().click();
  await page.locator('.chip').waitFor();
  await settled(page);
  const country = await page.evaluate(() => new URLSearchParams(location.hash.split('?')[1]).get('country'));
  const { totals } = await at.ask('insights/overview', { ...range, country });
  at.check(`the filter ${country}`, withoutSeparators((await tilesOf(page)).Visitors), totals.visitors);
}

async function experiment(at, page) {
  await go(page, `#experiments?site=${SITE}&key=slow-front`);
  await page.getByText('New visitors of each arm').first().waitFor();
  await settled(page);
  const result = await at.ask('insights/experiment', await askedOf(page, 'insights/experiment?'));
  at.check('the demo has a known phase', [result.exploratory, result.earlier, result.srm?.alarm], [false, 0, false]);
  const tiles = await tilesOf(page);
  const shown = result.arms.map(({ key }) => withoutSeparators(tiles[`Visitors saw ${key}`]));
  at.check(
    'the visitors of each arm',
    shown,
    result.arms.map(({ exposed }) => exposed),
  );
  await page.getByText('Sums and p-values').click();
  await page.locator('table[aria-label="Sums"] tbody tr').first().waitFor();
  const rows = await page.$$eval('table[aria-label="Sums"] tbody tr', (rows) =>
    rows.map((row) => [...row.children].slice(2, 4).map((cell) => Number(cell.textContent))),
  );
  const sums = result.metrics
    .flatMap((metric) => [...metric.arms, ...(metric.holdout ? [metric.holdout] : [])])
    .map(({ n, sum }) => [n, sum]);
  at.check('the sums of each metric and arm', rows, sums);
}

// Returns the parameters of the last question of this kind.
const askedOf = (page, path) =>
  page.evaluate((path) => {
    const asked = performance.getEntriesByType('resource').filter(({ name }) => name.includes(path));
    return Object.fromEntries(new URL(asked.at(-1).name).searchParams);
  }, path);

async function rangeOf(page) {
  const { from, to } = await askedOf(page, 'insights/overview');
  return { from, to };
}
