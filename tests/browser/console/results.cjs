// The result of an experiment: the sentence that decides comes first, every row is visible, and nobody has no numbers. Also unknown
// values of filters.
'use strict';
const { Server } = require('../server.cjs');
const { ConsoleBench, SITE, go, settled } = require('./bench.cjs');

const RESULT = `#experiments?site=${SITE}&key=slow-front`;
const LOOKS = [
  ['desktop', { width: 1200, height: 900 }],
  ['phone', { width: 400, height: 800 }],
];
// As many further goals as the server takes. With the published goal, its value and the guardrail that is 17 rows.
const MORE = Array.from({ length: 14 }, (_, at) => `Goal ${at + 1}`);
const ROWS = MORE.length + 3;
const EXPOSED = 120;
const ORDERS = 20;

module.exports = async function results(at) {
  for (const [name, viewport] of LOOKS) await everyRow(at, name, viewport);
  const server = await Server.startDemo(at.bench.places, 'results', ['--admin-token', at.token]);
  const fresh = new ConsoleBench(at.bench, server, at.token);
  await nobody(fresh);
  await oneArm(fresh);
  await severalCurrencies(fresh);
  await unknownValues(fresh);
  await server.stop();
};

// Returns the text of each row of the result that can be seen completely after the window alone is scrolled to it.
const visibleRows = (page) =>
  page.evaluate(() => {
    const isSeen = (element) => {
      const { left, right, top, bottom } = element.getBoundingClientRect();
      const isOnTop = (y) => element.contains(document.elementFromPoint((left + right) / 2, y));
      return left >= 0 && right <= innerWidth && isOnTop(top + 2) && isOnTop(bottom - 2);
    };
    const rows = [...document.querySelectorAll('table[aria-label=Metrics] tbody tr')].filter((row) => {
      scrollTo(0, row.getBoundingClientRect().top + scrollY - 100);
      return [...row.children].every(isSeen);
    });
    return rows.map((row) => row.textContent);
  });

async function everyRow(at, name, viewport) {
  const { page, context } = await at.open('', { viewport });
  await go(page, `${RESULT}&${new URLSearchParams(MORE.map((goal) => ['more', goal]))}`);
  await page.locator('table[aria-label=Metrics] tbody tr').nth(ROWS - 1).waitFor();
  await settled(page);
  const rows = await visibleRows(page);
  at.check(`every row of a result is visible, ${name}`, rows.length, ROWS);
  at.check(`the guardrail is visible, ${name}`, rows.filter((row) => row.includes('guardrail')).length, 1);
  await decisionFirst(at, page, name);
  await context.close();
}

// The sentence is above all else of the result, on the first screen.
async function decisionFirst(at, page, name) {
  await page.evaluate(() => scrollTo(0, 0));
  // A further goal decides nothing, so it is not asked for again.
  const asked = await page.evaluate(() => {
    const asked = performance.getEntriesByType('resource').filter(({ name }) => name.includes('insights/experiment?'));
    return Object.fromEntries(new URL(asked.at(-1).name).searchParams.entries().filter(([name]) => name !== 'more'));
  });
  const { decision } = await at.ask('insights/experiment', asked);
  at.check(`the sentence is that of the server, ${name}`, await page.locator('main .decision').first().textContent(), decision.sentence);
  const { top, bottom, others } = await page.evaluate(() => {
    const rect = (element) => element.getBoundingClientRect();
    const { top, bottom } = rect(document.querySelector('main .decision'));
    const others = [...document.querySelectorAll('main .notice, main .tile, main .card, main .pill, main .footer')];
    return { top, bottom, others: others.map((other) => rect(other).top) };
  });
  at.check(`the sentence comes first, ${name}`, others.length > 3 && others.every((other) => other >= bottom), true);
  at.check(`the sentence needs no scrolling, ${name}`, top >= 0 && bottom <= page.viewportSize().height, true);
}

const cellsOf = (page) =>
  page.$$eval('table[aria-label=Metrics] tbody tr', (rows) =>
    rows.map((row) => [...row.children].map((cell) => cell.textContent.trim().replaceAll(/\s+/g, ' '))),
  );

const tileOf = async (page, label) =>
  (await page.locator('.tile', { has: page.getByText(label, { exact: true }) }).innerText()).split('\n').filter(Boolean).slice(1);

async function nobody(at) {
  const { page, context } = await at.open(RESULT);
  await page.getByText('Nobody was exposed in this time.').waitFor();
  await settled(page);
  at.check('without visitors the split is not tested', await tileOf(page, 'Shares as planned'), ['–', 'no visitors yet']);
  const cells = await cellsOf(page);
  const expected = ['Order Placed', 'Order Placed', 'Order Refunded'].map(() => ['–default', '–slow', 'no data']);
  at.check('nobody has no numbers', cells.map((row) => row.slice(1, 4)), expected);
  await noWrongNumber(at, page, 'without visitors');
  await context.close();
}

// A share of -0.0, and the change of an arm that nobody saw.
async function noWrongNumber(at, page, label) {
  await page.getByText('Sums and p-values').click();
  await page.locator('table[aria-label=Sums] tbody tr').first().waitFor();
  const text = await page.locator('main').innerText();
  at.check(`no negative zero and no change of nobody, ${label}`, text.match(/[−-](0(\.0+)?( %|\b(?!\.))|100(\.0+)? %)/g), null);
}

async function oneArm(at) {
  const visitors = Array.from({ length: EXPOSED }, (_, visitor) => `arm-${visitor}`);
  const page_ = { type: 'page', properties: { path: '/' }, experiments: 'slow-front:default' };
  const order = { type: 'track', event: 'Order Placed', properties: { revenue: 10 } };
  await at.send(visitors.map((anonId) => ({ anonId, ...page_ })));
  await at.send(visitors.slice(0, ORDERS).map((anonId) => ({ anonId, ...order })));
  const { page, context } = await at.open('#health');
  await recordTexts(page);
  await page.goto(`${at.url}/${RESULT}&since=0`);
  await page.reload();
  await page.locator('.plot canvas').waitFor();
  await settled(page);
  const [goal] = await cellsOf(page);
  at.check('an arm without visitors has no numbers', goal.slice(1, 4), ['16.67 %default', '–slow', 'no data']);
  await noWrongNumber(at, page, 'one arm without visitors');
  await decisionFirst(at, page, 'with an alarm');
  await oneDay(at, page, 'New visitors of each arm');
  await page.goto(`${at.url}/#overview?site=${SITE}&days=1&by=day`);
  await page.reload();
  await page.locator('.plot canvas').waitFor();
  await settled(page);
  await oneDay(at, page, 'Visitors and page views');
  await context.close();
}

// The orders of `oneArm` have no currency. A value of several currencies has no row until one is chosen.
async function severalCurrencies(at) {
  const order = (anonId, revenue, currency) => ({ anonId, type: 'track', event: 'Order Placed', properties: { revenue, currency } });
  await at.send([order('arm-0', 10.5, 'EUR'), order('arm-1', 2000, 'NOK')]);
  const { page, context } = await at.open(`${RESULT}&since=0&goal=purchase`);
  const alarm = page.getByRole('alert').filter({ hasText: 'The values have several currencies' });
  await alarm.waitFor();
  at.check('the alarm of several currencies says what to do', (await alarm.textContent()).includes('such as &currency=EUR'), true);
  const metrics = async () => (await cellsOf(page)).map(([name]) => name.split(' not ')[0]);
  at.check('an amount of several currencies has no row', (await metrics()).some((name) => name.includes('per visitor')), false);
  const amounts = page.locator('p', { hasText: 'These amounts are not compared.' });
  at.check('its amounts are listed', await amounts.locator('bdi').allTextContents(), ['purchase', 'properties.revenue', '200, 10.5 EUR, 2,000 NOK']);
  await go(page, `${RESULT}&since=0&goal=purchase&currency=EUR`);
  await alarm.waitFor({ state: 'detached' });
  await settled(page);
  at.check('the URL chooses a currency', [await amounts.count(), (await metrics()).some((name) => name.includes('per visitor'))], [0, true]);
  await context.close();
}

// Keeps the texts that a chart draws.
const recordTexts = (page) =>
  page.addInitScript(() => {
    globalThis.drawn = [];
    const { fillText } = CanvasRenderingContext2D.prototype;
    CanvasRenderingContext2D.prototype.fillText = function record(text, ...rest) {
      globalThis.drawn.push(text);
      return fillText.call(this, text, ...rest);
    };
  });

// The axis of a chart with one point has the times of half a day before and after it.
async function oneDay(at, page, label) {
  await page.getByText('As a table').click();
  await page.locator(`table[aria-label="${label}"] tbody tr`).first().waitFor();
  at.check(`${label}: one point`, await page.locator(`table[aria-label="${label}"] tbody tr`).count(), 1);
  const drawn = await page.evaluate(() => globalThis.drawn);
  // The other texts are numbers, and the versions of publications.
  const times = drawn.filter((text) => !/^([\d,]+|v[\d…]+)$/.test(text));
  const day = new Intl.DateTimeFormat('en-GB', { timeZone: 'Europe/Oslo', day: 'numeric', month: 'short' }).format(new Date());
  at.check(`${label}: the axis names its day`, times.includes(day), true);
  at.check(`${label}: the axis covers no other day`, times.filter((text) => text !== day && !/^\d\d:00$/.test(text)), []);
}

async function unknownValues(at) {
  const { page, context } = await at.open(`#overview?site=${SITE}&country=Germany&event=Order+Placd&page=%2F`);
  const footer = page.locator('.footer').first();
  await footer.waitFor();
  const said = (await footer.locator('span').allTextContents()).filter((text) => text.startsWith('No kept event'));
  at.check('unknown values of filters are named', said, ['No kept event has the country Germany', 'No kept event has the event Order Placd']);
  await go(page, `${RESULT}&goal=Ordre&more=Mor`);
  await page.getByText('No kept event has the goal Ordre').waitFor();
  const goals = await footer.locator('span', { hasText: 'No kept event' }).allTextContents();
  const expected = ['goal Ordre', 'goal Mor', 'guardrail Order Refunded'].map((words) => `No kept event has the ${words}`);
  at.check('unknown goals are named', goals.sort(), expected.sort());
  await context.close();
}
