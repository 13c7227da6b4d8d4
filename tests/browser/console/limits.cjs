// The limits: time to the first chart, memory after an hour of polls, 100,000 pages and 10,000 event names.
'use strict';
const { SITE, go, settled } = require('./bench.cjs');

const LONG = Boolean(process.env.PARALLAX_LONG);
const RUNS = LONG ? 9 : 5;
const FACTOR = 3;
const POLLS = 720;
const POLL_MS = 5000;
// Bound of all polls, in milliseconds. They take a tenth on an idle machine.
const POLLS_PATIENCE_MS = 60_000;
const HEAP_BYTES = 20 * 1024 * 1024;
const PAGES = LONG ? 100_000 : 20_000;
const EVENT_NAMES = 10_000;
const BATCH = 2500;
// Bound of a page with that many names, in milliseconds. It takes a tenth on an idle machine.
const PATIENCE_MS = 10_000;

module.exports = async function limits(at) {
  await firstChart(at);
  await polls(at);
  await manyNames(at);
};

const median = (values) => values.sort((a, b) => a - b)[values.length >> 1];

// Both times begin with the navigation of a new tab and end with a painted frame. The empty page is a document of the same server.
async function firstChart(at) {
  const times = { empty: [], chart: [] };
  for (let run = 0; run < RUNS; run += 1) {
    times.empty.push(await timed(at, '', `${at.url}/healthz`, 'body'));
    times.chart.push(await timed(at, `#overview?site=${SITE}`, null, '.plot canvas'));
  }
  const [empty, chart] = [median(times.empty), median(times.chart)];
  console.log(`first chart: ${chart.toFixed(0)} ms, empty page: ${empty.toFixed(0)} ms`);
  at.check(`the first chart takes at most ${FACTOR} times an empty page`, chart <= FACTOR * empty, true);
}

async function timed(at, hash, url, selector) {
  const context = await at.bench.browser.newContext({ viewport: { width: 1200, height: 900 } });
  await context.addInitScript((token) => sessionStorage.setItem('parallax.token', token), at.token);
  const began = performance.now();
  const page = await context.newPage();
  await page.goto(url ?? `${at.url}/${hash}`);
  await page.locator(selector).first().waitFor();
  await page.evaluate(() => new Promise((painted) => requestAnimationFrame(() => requestAnimationFrame(painted))));
  const passed = performance.now() - began;
  await context.close();
  return passed;
}

async function polls(at) {
  const { page, context, messages } = await at.open('#health', {});
  await page.clock.install();
  await go(page, `#overview?site=${SITE}`);
  await page.locator('.plot canvas').waitFor();
  await settled(page);
  const answers = { count: 0 };
  page.on('response', (response) => {
    answers.count += response.url().includes('insights/live') ? 1 : 0;
  });
  // A poll is left out while an answer is awaited, so the clock goes on until the server answered all.
  const began = performance.now();
  while (answers.count < POLLS && performance.now() - began < POLLS_PATIENCE_MS) await page.clock.runFor(POLL_MS);
  const session = await context.newCDPSession(page);
  await session.send('HeapProfiler.enable');
  await session.send('HeapProfiler.collectGarbage');
  const { usedSize } = await session.send('Runtime.getHeapUsage');
  console.log(`heap after ${answers.count} polls: ${(usedSize / 1024 / 1024).toFixed(1)} MiB`);
  at.check('every poll is answered', answers.count >= POLLS, true);
  at.check('the heap stays small', usedSize <= HEAP_BYTES, true);
  at.check('polls leave no message of the browser', messages, []);
  await context.close();
}

async function manyNames(at) {
  const event = (at) =>
    at < PAGES ? { type: 'page', properties: { path: `/many/${at}` } } : { type: 'track', event: `Many ${at - PAGES}` };
  for (let begin = 0; begin < PAGES + EVENT_NAMES; begin += BATCH) {
    const rows = Array.from({ length: Math.min(BATCH, PAGES + EVENT_NAMES - begin) }, (_, offset) => begin + offset);
    await at.send(rows.map((row) => ({ anonId: `many-${row % 977}`, ...event(row) })));
  }
  const { page, context, messages } = await at.open(`#overview?site=${SITE}&days=1`);
  const began = performance.now();
  await page.locator('.plot canvas').waitFor();
  await settled(page);
  await go(page, `#pages?site=${SITE}&days=1`);
  for (const more of ['Show up to 200', 'Show up to 1,000']) {
    await page.getByText(more).first().click();
    await settled(page);
  }
  await page.waitForFunction(() => document.querySelectorAll('table[aria-label=Pages] tbody tr').length >= 900);
  await page.locator('table[aria-label=Pages] tbody tr').nth(500).getByRole('button').click();
  await page.getByText('This page has no zone with variants.').waitFor();
  const passed = performance.now() - began;
  console.log(`${PAGES} pages and ${EVENT_NAMES} event names: ${passed.toFixed(0)} ms for the overview, 1,000 rows and one page`);
  at.check('many names are usable', passed < PATIENCE_MS, true);
  at.check('many names leave no message of the browser', messages, []);
  await context.close();
}
