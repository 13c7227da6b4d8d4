// A server that is busy: a panel waits as long as Retry-After says, keeps its last answer meanwhile, and asks again by itself.
'use strict';
const { SITE, go, settled } = require('./bench.cjs');

const DETAIL = 'Too many questions wait for an answer; retry later.';
// The page may handle an answer some steps of the clock after it arrived.
const STEPS_MAX = 2000;
const SLACK_STEPS = 10;
// The console adds at most a quarter to a wait.
const SPREAD = 1.25;

module.exports = async function busy(at) {
  await firstAnswer(at);
  await nextAnswer(at);
  await poll(at);
  await live(at);
};

// Opens a page that keeps the times of its requests and answers, by its own clock.
async function openTimed(at, hash) {
  const tab = await at.open('#health');
  await tab.page.clock.install();
  await tab.page.addInitScript(() => {
    const { fetch } = globalThis;
    globalThis.asked = [];
    globalThis.fetch = async (...args) => {
      const one = { url: String(args[0]), askedAt: Date.now() };
      globalThis.asked.push(one);
      const response = await fetch(...args);
      one.answeredAt = Date.now();
      return response;
    };
  });
  await tab.page.goto(`${at.url}/${hash}`);
  await tab.page.reload();
  return tab;
}

// Answers the next requests for a path with 503 and Retry-After, and lets the later ones pass. Forgets the earlier ones.
async function refuse(page, path, { times, seconds }) {
  const refused = { path, count: 0 };
  await page.evaluate(() => {
    globalThis.asked.length = 0;
  });
  await page.route(`**/${path}`, (route) => {
    refused.count += 1;
    if (refused.count > times) return route.continue();
    const headers = { 'Retry-After': String(seconds) };
    return route.fulfill({ status: 503, headers, json: { code: 'overloaded', detail: DETAIL } });
  });
  return refused;
}

// Lets the clock go on until the page has asked so often. No person does anything.
async function runUntil(page, refused, count, stepMs) {
  for (let steps = 0; refused.count < count && steps < STEPS_MAX; steps += 1) await page.clock.runFor(stepMs);
}

// Returns how often the page asked, and for each time between two requests whether it was as long as it had to be.
async function waitsOf(page, { path }, seconds, stepMs) {
  const asked = await page.evaluate((part) => globalThis.asked.filter(({ url }) => url.includes(part)), path.replace('*', ''));
  const waits = asked.slice(1).map(({ askedAt }, index) => askedAt - asked[index].answeredAt);
  const most = seconds * 1000 * SPREAD + SLACK_STEPS * stepMs;
  return [asked.length, ...waits.map((wait) => (wait >= seconds * 1000 && wait <= most ? 'as told' : wait))];
}

const alertOf = (page) => page.getByRole('alert').first();

async function firstAnswer(at) {
  const { page, context } = await openTimed(at, '#health');
  const refused = await refuse(page, 'insights/experiments?*', { times: 2, seconds: 2 });
  await go(page, `#experiments?site=${SITE}`);
  await alertOf(page).waitFor();
  at.check('a busy server is named', (await alertOf(page).textContent()).trim(), `No answer. ${DETAIL} The console asks again by itself.`);
  await runUntil(page, refused, 3, 50);
  await page.getByRole('heading', { level: 2, name: 'slow-front' }).waitFor();
  at.check('a panel waits for Retry-After, twice', await waitsOf(page, refused, 2, 50), [3, 'as told', 'as told']);
  at.check('and then has its answer', await page.getByRole('alert').count(), 0);
  await page.clock.runFor(20_000);
  at.check('and asks no more', refused.count, 3);
  await context.close();
}

async function nextAnswer(at) {
  const { page, context } = await openTimed(at, `#experiments?site=${SITE}&key=slow-front`);
  const metrics = page.locator('table[aria-label=Metrics] tbody tr');
  await metrics.first().waitFor();
  await settled(page);
  const rows = await metrics.count();
  const refused = await refuse(page, 'insights/experiment?*', { times: 2, seconds: 2 });
  await go(page, `#experiments?site=${SITE}&key=slow-front&lift=0.2`);
  await alertOf(page).waitFor();
  at.check('it says that the last answer stays', (await alertOf(page).textContent()).trim().endsWith('The last answer is below.'), true);
  at.check('the last answer stays, greyed', await page.locator('.greyed table[aria-label=Metrics] tbody tr').count(), rows);
  at.check('and is in sight', await metrics.last().isVisible(), true);
  await runUntil(page, refused, 3, 50);
  await page.getByRole('alert').waitFor({ state: 'detached' });
  await page.getByText('to find a change of 20 %').waitFor();
  at.check('the next answer waits for Retry-After, twice', await waitsOf(page, refused, 2, 50), [3, 'as told', 'as told']);
  at.check('the next answer is not greyed', await page.locator('main .greyed').count(), 0);
  await context.close();
}

// A poll has its own time, which is shorter than this Retry-After.
async function poll(at) {
  const { page, context } = await openTimed(at, `#publishing?site=${SITE}`);
  await page.getByText('Changed routes').waitFor();
  const refused = await refuse(page, 'sites', { times: 1, seconds: 60 });
  await runUntil(page, refused, 1, 500);
  await alertOf(page).waitFor();
  at.check('a refused poll keeps the page', await page.getByText('Changed routes').isVisible(), true);
  await runUntil(page, refused, 2, 500);
  await page.getByRole('alert').waitFor({ state: 'detached' });
  at.check('a poll is not earlier than Retry-After', await waitsOf(page, refused, 60, 500), [2, 'as told']);
  await runUntil(page, refused, 3, 500);
  at.check('and then has its own time again', refused.count, 3);
  await context.close();
}

async function live(at) {
  const { page, context } = await openTimed(at, `#overview?site=${SITE}`);
  const numbers = page.locator('.live b');
  await numbers.first().waitFor();
  const before = await numbers.allTextContents();
  const refused = await refuse(page, 'insights/live?*', { times: 1, seconds: 60 });
  await runUntil(page, refused, 1, 500);
  await page.locator('.live').getByText(DETAIL).waitFor();
  at.check('the live numbers stay', await numbers.allTextContents(), before);
  at.check('with a grey dot', await page.locator('.live .dot').getAttribute('class'), 'dot');
  await context.close();
}
