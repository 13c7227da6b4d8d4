// Experiments with a ramp, a planned end, a winner, CUPED, errors and a stalled enrolment, and the holdout of the site. The pages are
// compared with the answers of the server.
'use strict';
const path = require('node:path');
const { Server, compileDemo } = require('../server.cjs');
const { ConsoleBench, SITE, go, settled } = require('./bench.cjs');
const { LOOKS, checkRules, openDetails, openWithAxe, picture } = require('./pages.cjs');

const DAY_MS = 86_400_000;
const BATCH = 2500;
// The server serves the second step of the ramp this long after the publication.
const STEP_MS = 2000;

const ago = (days) => new Date(Date.now() - days * DAY_MS).toISOString();
const METRICS = { goal: 'Order Placed', value: 'properties.revenue' };

module.exports = async function experiments(at) {
  const server = await Server.startDemo(at.bench.places, 'experiments', ['--admin-token', at.token]);
  const fresh = new ConsoleBench(at.bench, server, at.token);
  const { page, context, messages } = await fresh.open(`#experiments?site=${SITE}`);
  await page.getByText('slow-front').waitFor();
  fresh.check('a site without a holdout has no card of it', await page.getByText('All experiments together').count(), 0);
  await publish(fresh);
  await sendAll(fresh);
  await cards(fresh, page);
  await ramp(fresh, page);
  await cuped(fresh, page);
  await decided(fresh, page);
  await alarms(fresh, page);
  await holdout(fresh, page);
  fresh.check('experiments leave no message of the browser', messages, []);
  await context.close();
  await marks(fresh);
  await otherStates(fresh);
  for (const look of LOOKS) await looks(fresh, look);
  await server.stop();
};

// The first version began the phases of the demo 60 days ago. This one goes on with them.
async function publish(at) {
  const slow = {
    ...METRICS,
    coverage: [
      { from: ago(1), share: 0.1 },
      { from: new Date(Date.now() + STEP_MS).toISOString(), share: 0.5 },
      { from: ago(-30), share: 1 },
    ],
    to: ago(-60),
    winner: 'slow',
  };
  const changes = {
    'slow-front': slow,
    'tent-advice': { ...METRICS, to: ago(1), winner: 'checklist' },
    'product-assurance': METRICS,
    'letter-wording': { ...METRICS, coverage: 0 },
  };
  compileDemo(at.bench.places, { holdout: { share: 0.2 } }, path.join(at.server.snapshots, 'experiments.snapshot'), changes);
  const hasSecondStep = async () => (await at.ask('insights/experiment', { key: 'slow-front' })).phases.at(-1).coverage === 0.5;
  while (!(await hasSecondStep())) await new Promise((next) => setTimeout(next, 200));
}

const pageView = (anonId, days, experiments) => ({ type: 'page', anonId, timestamp: ago(days), experiments, properties: { path: '/' } });
const order = (anonId, days, revenue = 100) => ({ type: 'track', event: 'Order Placed', anonId, timestamp: ago(days), properties: { revenue } });

// Visitors of `count` numbers, in turn in each arm. `events` returns the events of one.
function visitors(name, arms, count, events) {
  const numbers = Array.from({ length: count }, (_, number) => number);
  return numbers.flatMap((number) => events(`${name}-${number}`, arms[number % arms.length], Math.floor(number / arms.length)));
}

async function sendAll(at) {
  // Half of the visitors came before, and a half of those ordered. They order more often than the others, in both arms.
  const before = visitors('slow', ['default', 'slow'], 1600, (id, _, number) =>
    number % 2 ? [] : [pageView(id, 25), ...(number % 4 ? [] : [order(id, 24.5, 80 + (number % 70))])],
  );
  const since = visitors('slow', ['default', 'slow'], 1600, (id, arm, number) => {
    const day = 20 - (number % 80) / 4;
    const orders = number % 4 === 0 ? number % 8 === 0 || arm === 'slow' : number % 10 === 1;
    return [pageView(id, day, `slow-front:${arm}`), ...(orders ? [order(id, day - 0.001, 90 + (number % 90))] : [])];
  });
  const tents = visitors('tent', ['default', 'call-back', 'checklist'], 900, (id, arm, number) => [
    pageView(id, 20 - (number % 18), `tent-advice:${arm}`),
    ...(number % (arm === 'checklist' ? 2 : 5) ? [] : [order(id, 1.5)]),
  ]);
  const products = ['default', 'default', 'default', 'figures', 'figures'];
  const stalled = visitors('product', products, 400, (id, arm) => [pageView(id, 12, `product-assurance:${arm}`)]);
  const faulty = visitors('letter', ['default', 'plain', 'default', 'recipe'], 400, (id, arm, number) => [
    pageView(id, 0, `letter-wording:${arm}`),
    ...(arm === 'plain' && number < 40 ? [{ type: 'track', event: 'Experiment Error', anonId: id }] : []),
  ]);
  const held = visitors('group', ['~', 'on', 'on', 'on', 'on'], 1500, (id, group, number) => [
    pageView(id, 0, `~:${group}`),
    ...(number % (group === 'on' ? 3 : 4) ? [] : [order(id, 0)]),
  ]);
  for (const events of [before, since, [...tents, ...stalled, ...faulty, ...held]]) {
    for (let begin = 0; begin < events.length; begin += BATCH) await at.send(events.slice(begin, begin + BATCH));
  }
}

const textOf = async (locator) => (await locator.innerText()).replaceAll(/\s+/g, ' ').trim();
const cardOf = (page, title) => page.locator('.card', { has: page.getByRole('link', { name: title, exact: true }) });

async function cards(at, page) {
  await page.reload();
  await page.getByText('All experiments together').waitFor();
  await settled(page);
  const titles = ['slow-front', 'tent-advice', 'product-assurance', 'letter-wording', 'All experiments together'];
  const states = await Promise.all(titles.map((title) => textOf(cardOf(page, title).locator('.pill'))));
  at.check('the states of the experiments', states, ['running', 'decided: checklist', '1 alarm', 'paused', 'site holdout']);
  at.check('a coverage below 1 is on the card', (await textOf(cardOf(page, 'slow-front'))).includes('coverage 50 % of new visitors'), true);
  at.check('the end and the winner are on the card', /Ends on .+ Then everyone gets slow\./.test(await textOf(cardOf(page, 'slow-front'))), true);
  at.check('the ended one too', /Ended on .+ Everyone gets checklist\./.test(await textOf(cardOf(page, 'tent-advice'))), true);
  const together = await textOf(cardOf(page, 'All experiments together'));
  at.check('the groups of the holdout are on its card', /held out 300 visitors everyone else 1,200 visitors/.test(together), true);
}

async function open(page, key, params = '') {
  await go(page, `#experiments?site=${SITE}&key=${key}${params}`);
  await page.locator('.plot canvas').waitFor();
  await settled(page);
}

async function ramp(at, page) {
  await open(page, 'slow-front');
  const { phases } = await at.ask('insights/experiment', { key: 'slow-front' });
  const steps = await page.locator('section[aria-label="New visitors of each arm"] > ul > li').allInnerTexts();
  const shares = steps.map((step) => step.match(/^[\d.]+ %/)[0]);
  at.check('the steps of the coverage', shares, phases.at(-1).coverages.map(({ share }) => `${share * 100} %`));
  at.check('the steps of the ramp', shares, ['100 %', '10 %', '50 %', '100 %']);
  at.check('the present step and the planned ones', steps.map((step) => step.match(/\((.+)\)/)?.[1]), [undefined, undefined, 'now', 'planned']);
  at.check('the lead has the state', /^running Ends on .+ Then everyone gets slow\.$/.test(await textOf(page.locator('p.lead').nth(1))), true);
}

const signed = (share) => `${share > 0 ? '+' : ''}${(share * 100).toFixed(1).replace('-', '−')} %`;

async function cuped(at, page) {
  const { metrics } = await at.ask('insights/experiment', { key: 'slow-front' });
  const [{ cuped: effect }] = metrics[0].against;
  const { low, high } = effect.unadjusted;
  const cell = () => page.locator('table[aria-label=Metrics] tbody tr').first().locator('td[data-name=Interval]');
  const expected = [`CUPED: as if ${(1 / effect.varianceRatio).toFixed(2)} times the visitors`, `without it: ${signed(low)} to ${signed(high)}`];
  at.check('the effect of CUPED', (await cell().locator('.small').allInnerTexts()).slice(1), expected);
  at.check('CUPED helps', effect.varianceRatio < 0.9, true);
  await open(page, 'slow-front', '&cuped=off');
  await page.getByText('exploratory', { exact: true }).waitFor();
  at.check('the URL turns CUPED off', (await cell().locator('.small').allInnerTexts()).slice(1), []);
}

async function decided(at, page) {
  await open(page, 'tent-advice');
  const { decision } = await at.ask('insights/experiment', { key: 'tent-advice' });
  at.check('the sentence of a decided experiment', [await textOf(page.locator('.decision')), decision.action], [decision.sentence, 'decided']);
  const lead = await textOf(page.locator('p.lead').nth(1));
  at.check('a decided experiment says which events count', /^decided: checklist Ended on .+ Everyone gets checklist\. Only events before the end count\.$/.test(lead), true);
}

async function alarms(at, page) {
  for (const [key, alarm, text] of [
    ['product-assurance', 'enrolment_stalled', 'No visitor saw an arm for 24 hours'],
    ['letter-wording', 'arm_error', 'One arm has more than its share'],
  ]) {
    const { alarms } = await at.ask('insights/experiment', { key });
    at.check(`the alarm of ${key}`, alarms, [alarm]);
    await open(page, key);
    const shown = await page.getByRole('alert').allInnerTexts();
    at.check(`the alarm of ${key} is a sentence`, [shown.length, shown[0].includes(text)], [1, true]);
  }
  const notes = await page.locator('.tile .small').allInnerTexts();
  at.check('the errors of each arm', notes.slice(0, 3).map((note) => note.match(/, (\d+) visitors? with an error$/)?.[1]), ['0', '40', '0']);
  at.check('the paused one says so', await textOf(page.locator('p.lead .pill')), 'paused');
}

async function holdout(at, page) {
  await go(page, `#experiments?site=${SITE}`);
  await page.getByRole('link', { name: 'All experiments together' }).click();
  await page.locator('.plot canvas').waitFor();
  await settled(page);
  at.check('the navigation marks the page of one', await page.locator('nav a[aria-current=page]').allInnerTexts(), ['Experiments']);
  const { arms } = await at.ask('insights/holdout');
  at.check('the groups of the holdout', arms.map(({ key }) => key), ['~', 'on']);
  const labels = await page.locator('.tile-label').allInnerTexts();
  at.check('the groups in words', labels.slice(0, 2), ['Visitors: held out', 'Visitors: everyone else']);
  at.check('no decision', await page.locator('.decision').count(), 0);
  const text = await textOf(page.locator('main'));
  at.check('no key of a group', text.match(/(^| )(~|on:|on \d)/g), null);
}

// Opens a page of which `change` changes each answer to a question about experiments. A test cannot publish a ramp of the past.
async function openChanged(at, params, change) {
  const { page, context } = await at.open('#health');
  await page.addInitScript(() => {
    globalThis.marks = new Set();
    const { moveTo } = CanvasRenderingContext2D.prototype;
    CanvasRenderingContext2D.prototype.moveTo = function record(x, y) {
      if (this.getLineDash().join() === '4,4') globalThis.marks.add(Math.round(x));
      return moveTo.call(this, x, y);
    };
  });
  await page.route('**/insights/experiment*', async (route) => {
    const response = await route.fetch();
    const json = await response.json();
    change(json);
    await route.fulfill({ response, json });
  });
  await go(page, `#experiments?site=${SITE}${params}`);
  await page.reload();
  await page.locator(params ? '.plot canvas' : '.cards .card').first().waitFor();
  await settled(page);
  return { page, context };
}

// The begin of the phase and three steps are in the chart. The planned step is not.
async function marks(at) {
  const { page, context } = await openChanged(at, '&key=slow-front', ({ phases: [phase] }) => {
    const steps = [[-40, 0.1], [-20, 0.2], [-10, 0.5], [10, 1]].map(([days, share]) => ({ from: ago(-days), share }));
    phase.coverages = [{ from: phase.from, share: 0.01 }, ...steps];
  });
  at.check('the steps of the coverage are in the chart', await page.evaluate(() => globalThis.marks.size), 4);
  await context.close();
}

async function otherStates(at) {
  const { page, context } = await openChanged(at, '', ({ experiments: [letters, products, slow, tents] }) => {
    Object.assign(letters, { standing: 'not_started', from: ago(-3), to: ago(-9) });
    Object.assign(products, { standing: 'ended', from: ago(9), to: ago(3), alarms: [] });
    Object.assign(slow, { lastExposure: null });
    Object.assign(tents, { standing: null, published: false });
  });
  const keys = ['letter-wording', 'product-assurance', 'slow-front', 'tent-advice'];
  const states = await Promise.all(keys.map((key) => textOf(cardOf(page, key).locator('.pill'))));
  at.check('the other states', states, ['not started', 'ended', 'no exposure yet', 'not published']);
  const said = await Promise.all(keys.slice(0, 2).map((key) => textOf(cardOf(page, key))));
  at.check('the begin and the end in words', [/Starts on .+ Ends on /.test(said[0]), /Started on .+ Ended on /.test(said[1])], [true, true]);
  await context.close();
}

// Every new page in this look: its width, a picture, and the rules of accessibility.
async function looks(at, [look, options]) {
  const { page, context } = await openWithAxe(at, `#health?site=${SITE}`, options);
  const keys = ['slow-front', 'tent-advice', 'letter-wording', '~'];
  for (const [name, params] of [['experiments', ''], ...keys.map((key) => [`experiment-${key}`, `&key=${key}`])]) {
    const label = `${look}: ${name}`;
    await go(page, `#experiments?site=${SITE}${params}`);
    await page.getByText(params ? 'New visitors of each' : 'All experiments together').first().waitFor();
    await settled(page);
    const width = await page.evaluate(() => document.documentElement.scrollWidth);
    at.check(`nothing is wider than the screen, ${label}`, width <= (options.viewport?.width ?? 1200), true);
    await picture(page, `with-data-${name}-${look.replace(' ', '-')}`);
    await openDetails(page);
    await checkRules(at, page, label);
  }
  await context.close();
}
