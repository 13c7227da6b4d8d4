// The segments of an experiment: the published ones, those that a person chooses by keyboard, their tables against the answers of the
// server, and their sentences.
'use strict';
const path = require('node:path');
const { Server, compileDemo } = require('../server.cjs');
const { ConsoleBench, SITE, go, settled } = require('./bench.cjs');
const { LOOKS, checkRules, openWithAxe, picture } = require('./pages.cjs');

const BATCH = 2500;
const VISITORS = 1200;
// More sources than an answer lists.
const SOURCES = 23;
const RESULT = `#experiments?site=${SITE}&key=slow-front&since=30`;
const ALL = `${RESULT}&segment=language&segment=source&segment=country`;

module.exports = async function segments(at) {
  const server = await Server.startDemo(at.bench.places, 'segments', ['--admin-token', at.token]);
  const fresh = new ConsoleBench(at.bench, server, at.token);
  await sendAll(fresh);
  const { page, context, messages } = await fresh.open(RESULT);
  await notPublished(fresh, page);
  await publish(fresh);
  await published(fresh, page);
  await chosen(fresh, page);
  await sentences(fresh, page);
  await withoutVerdicts(fresh, page);
  fresh.check('segments leave no message of the browser', messages, []);
  await context.close();
  for (const look of LOOKS) await looks(fresh, look);
  await server.stop();
};

// Norwegians order more often in one arm. All others order as often in both, and each source has few visitors.
async function sendAll(at) {
  const numbers = Array.from({ length: VISITORS }, (_, number) => number);
  const visits = numbers.flatMap((number) => {
    const anonId = `visitor-${number}`;
    const [arm, locale] = [number % 2 ? 'slow' : 'default', number % 4 < 2 ? 'nb-NO' : 'de-DE'];
    const url = number < SOURCES ? `https://fjell.example/?utm_source=source-${number}` : 'https://fjell.example/';
    const context = { locale, page: { url }, ...(locale === 'nb-NO' && { country: 'NO' }) };
    const isOrder = arm === 'slow' && locale === 'nb-NO' ? number % 8 < 4 : number % 40 < 8;
    const view = { type: 'page', anonId, experiments: `slow-front:${arm}`, context, properties: { path: '/', url } };
    return [view, ...(isOrder ? [{ type: 'track', event: 'Order Placed', anonId, properties: { revenue: 100 } }] : [])];
  });
  for (let begin = 0; begin < visits.length; begin += BATCH) await at.send(visits.slice(begin, begin + BATCH));
}

async function publish(at) {
  const changes = { 'slow-front': { segments: ['device', 'new'] } };
  compileDemo(at.bench.places, {}, path.join(at.server.snapshots, 'segments.snapshot'), changes);
  const isServed = async () => (await at.ask('insights/experiment', { key: 'slow-front' })).segments.length > 0;
  while (!(await isServed())) await new Promise((next) => setTimeout(next, 200));
}

const card = (page) => page.locator('section[aria-label="By segment"]');
const textOf = async (locator) => (await locator.innerText()).replaceAll(/\s+/g, ' ').trim();
const captionsOf = (page) => card(page).locator('caption').allInnerTexts();

// Does something that changes the question. Returns the next answer, which the page then shows.
async function answerAfter(page, act) {
  const [response] = await Promise.all([page.waitForResponse(/insights\/experiment\?/), act()]);
  const answer = await response.json();
  await card(page).waitFor();
  await settled(page);
  return answer;
}

const boxesOf = (page) =>
  card(page)
    .locator('label')
    .evaluateAll((labels) =>
      labels.map((label) => [label.innerText.trim().replaceAll(/\s+/g, ' '), label.control.checked, label.control.disabled]),
    );

async function notPublished(at, page) {
  await card(page).waitFor();
  await settled(page);
  at.check('without segments there is no table', await captionsOf(page), []);
  at.check('but a sentence', (await textOf(card(page))).includes('Choose a property.'), true);
  const boxes = await boxesOf(page);
  at.check(
    'and all are to choose',
    boxes,
    ['Device', 'Country', 'Source', 'Language', 'New or returning'].map((title) => [title, false, false]),
  );
}

async function published(at, page) {
  const answer = await answerAfter(page, () => page.reload());
  at.check('published segments are shown', await captionsOf(page), ['Device', 'New or returning']);
  const expected = [
    ['Device published', true, true],
    ['Country', false, false],
    ['Source', false, false],
    ['Language', false, false],
    ['New or returning published', true, true],
  ];
  at.check('and need no choice', await boxesOf(page), expected);
  await rows(at, page, answer, 'published');
}

// The keyboard chooses a property, and the URL has it.
async function chosen(at, page) {
  for (const [name, title] of [
    ['language', 'Language'],
    ['source', 'Source'],
    ['country', 'Country'],
  ]) {
    const box = page.getByRole('checkbox', { name: title, exact: true });
    await box.focus();
    const answer = await answerAfter(page, () => page.keyboard.press('Space'));
    at.check(`${title}: the focus stays`, await box.evaluate((box) => box === document.activeElement && box.checked), true);
    at.check(
      `${title}: the server was asked`,
      answer.segments.some(({ segment }) => segment === name),
      true,
    );
  }
  at.check('the URL has the choice', await page.evaluate(() => location.hash), ALL);
  at.check('the tables of all', await captionsOf(page), ['Device', 'Country', 'Source', 'Language', 'New or returning']);
  const answer = await answerAfter(page, () => page.reload());
  await rows(at, page, answer, 'all');
  const languages = await rowsOf(page, 'Language');
  at.check(
    'only one segment has a better arm',
    languages.map(([name, ...cells]) => [name, cells.at(-1)]),
    [
      ['German', 'not told apart'],
      ['Norwegian Bokmål', 'better'],
    ],
  );
  const sources = await rowsOf(page, 'Source');
  at.check('values that are not listed are one segment', sources.at(-1).slice(0, 2), [`${SOURCES + 1 - 20} others`, `${SOURCES + 1 - 20}`]);
  at.check('few visitors are too early', sources.at(-1).at(-1).startsWith('too early'), true);
  at.check(
    'no country is a word',
    (await rowsOf(page, 'Country')).map(([name]) => name),
    ['Norway', '(unknown)'],
  );
  await answerAfter(page, () => page.getByRole('checkbox', { name: 'Country', exact: true }).uncheck());
  at.check('a property can be removed', await captionsOf(page), ['Device', 'Source', 'Language', 'New or returning']);
}

const rowsOf = (page, title) =>
  card(page)
    .locator('table', { has: page.locator('caption', { hasText: title }) })
    .locator('tbody tr')
    .evaluateAll((rows) => rows.map((row) => [...row.children].map((cell) => cell.innerText.trim().replaceAll(/\s+/g, ' '))));

const VERDICTS = { better: 'better', worse: 'worse', not_told_apart: 'not told apart', too_early: 'too early' };
const count = (value) => new Intl.NumberFormat('en-GB').format(value);
const signed = (share) => `${share > 0 ? '+' : ''}${(share * 100).toFixed(1).replace('-', '−')} %`.replace(/^[+−](?=0\.0 %)/, '');

// The visitors, the change, the interval and the verdict of each row are those of the answer.
async function rows(at, page, { segments }, label) {
  const all = segments.flatMap(({ values, others }) => (others ? [...values, others] : values));
  const expected = all.map(
    ({
      exposed,
      metrics: [
        {
          against: [{ estimate, low, high, verdict }],
        },
      ],
    }) => [
      count(exposed),
      estimate === null ? 'no data' : signed(estimate),
      low === null ? 'no interval yet' : `${signed(low)} to ${signed(high)}`,
      VERDICTS[verdict],
    ],
  );
  const shown = await card(page)
    .locator('tbody tr')
    .evaluateAll((rows) => rows.map((row) => [...row.querySelectorAll('td')].map((cell) => cell.innerText.trim())));
  at.check(
    `the rows are those of the answer, ${label}`,
    shown.map(([exposed, , , change, interval, verdict]) => [exposed, change, interval, verdict.split('\n')[0]]),
    expected,
  );
  const adjusted = all.flatMap(({ metrics }) => metrics.flatMap(({ against }) => against)).filter(({ verdict }) => verdict !== null).length;
  const sentence = `Comparisons that are adjusted together: ${count(adjusted)}. At most 5 % of the verdicts “better” and “worse” are expected to be false.`;
  at.check(`the sentence counts the comparisons, ${label}`, [adjusted > 0, (await textOf(card(page))).includes(sentence)], [true, true]);
}

// Opens the result with a changed answer, or with another URL.
async function sentences(at, page) {
  const said = async (action, params = '') => {
    await page.route('**/insights/experiment?*', async (route) => {
      const response = await route.fetch();
      const json = await response.json();
      if (json.decision) Object.assign(json.decision, { action });
      await route.fulfill({ response, json });
    });
    await go(page, `${RESULT}${params}`);
    await page.reload();
    await card(page).waitFor();
    await settled(page);
    await page.unroute('**/insights/experiment?*');
    return textOf(card(page));
  };
  const goesOn = 'A verdict in a segment is not the decision of the experiment, which is to go on.';
  at.check('a verdict in a segment ends no experiment', (await said('go_on')).includes(goesOn), true);
  const chosen = await said('choose');
  at.check('nor does it decide', [chosen.includes('is not the decision of the experiment.'), chosen.includes('go on')], [true, false]);
  at.check('the URL sets the share of false verdicts', (await said('choose', '&alpha=0.1')).includes('At most 10 % of the verdicts'), true);
}

async function withoutVerdicts(at, page) {
  await answerAfter(page, () => go(page, `${ALL}&method=fixed`));
  const text = await textOf(card(page));
  at.check('with the fixed method no segment has a verdict', text.includes('No segment has a verdict. With method=fixed'), true);
  const verdicts = new Set(await card(page).locator('tbody .pill').allInnerTexts());
  at.check('and no word of one', [...verdicts], ['none']);
}

// The tables in this look: their width, a picture, and the rules of accessibility.
async function looks(at, [look, options]) {
  const { page, context } = await openWithAxe(at, ALL, options);
  await card(page).locator('caption').nth(4).waitFor();
  await settled(page);
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  at.check(`segments are not wider than the screen, ${look}`, width <= (options.viewport?.width ?? 1200), true);
  const cells = await card(page)
    .locator('table')
    .first()
    .locator('th')
    .evaluateAll((cells) => cells.map(({ scope }) => scope));
  at.check(`each heading of a segment has a scope, ${look}`, new Set(cells), new Set(['col', 'row']));
  await picture(page, `segments-${look.replace(' ', '-')}`);
  await checkRules(at, page, `${look}: segments`);
  await context.close();
}
