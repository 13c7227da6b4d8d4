// Two ranges beside each other: the choice in the header, kept in the URL, and the changes with the numbers of the API on every page
// with a range.
'use strict';
const { readFileSync } = require('node:fs');
const { SITE, go, settled } = require('./bench.cjs');
const { LOOKS, checkRules, openWithAxe, picture } = require('./pages.cjs');

module.exports = async function compare(at) {
  const { page, context, messages } = await at.open(`#overview?site=${SITE}&days=7`);
  await byDefault(at, page);
  const ranges = await byKeyboard(at, page);
  await overview(at, page, ranges);
  await sources(at, page);
  await funnel(at, page);
  await retention(at, page);
  await paths(at, page);
  await zones(at, page);
  await questions(at, page);
  await nothing(at, page);
  at.check('comparisons leave no message of the browser', messages, []);
  await wrongRange(at, page);
  await context.close();
  for (const look of LOOKS) await looks(at, look);
};

const whole = new Intl.NumberFormat('en-GB');
const percent = (share) => (share === null || !Number.isFinite(share) ? '–' : `${(100 * share).toFixed(1).replace('-', '−')} %`);
const textOf = async (locator) => (await locator.innerText()).replaceAll(/\s+/g, ' ').trim();
const paramOf = (page, name) => page.evaluate((name) => new URLSearchParams(location.hash.split('?')[1]).get(name), name);
const picker = (page) => page.getByRole('combobox', { name: 'Compare with', exact: true });

// Returns a change as the page writes it. `all` is the number of the whole range.
function changeOf({ now, before, all = now }, words = whole.format) {
  const text = percent(now / before - 1);
  const sign = now > before && text !== '0.0 %' ? '+' : '';
  if (!before) return now ? 'new' : '–';
  return `${sign}${text} from ${words(before)}${all === now ? '' : ` to ${words(now)}`}`;
}

// Returns the texts of the changes in a column of a table.
const changesIn = (page, label, column) =>
  page.$$eval(
    `table[aria-label="${label}"] tbody tr`,
    (rows, column) => rows.map((row) => [...row.children].at(column).querySelector('.change')?.textContent.replaceAll(/[▲▼\s]+/g, ' ').trim()),
    column,
  );

// Returns the parameters of the last question of this kind, as the page asked it, as [name, value].
const askedOf = (page, path) =>
  page.evaluate((path) => {
    const asked = performance.getEntriesByType('resource').filter(({ name }) => name.includes(`${path}?`));
    return [...new URL(asked.at(-1).name).searchParams];
  }, path);

async function askAgain(at, page, path) {
  const response = await fetch(`${at.url}/${path}?${new URLSearchParams(await askedOf(page, path))}`, {
    headers: { Authorization: `Bearer ${at.token}` },
  });
  return response.json();
}

async function show(page, hash, text = 'The changes are against') {
  await go(page, hash);
  await page.getByText(text).first().waitFor();
  await settled(page);
}

// The overview is compared with the period before. Another page is compared with nothing.
async function byDefault(at, page) {
  await page.getByText('The changes are against').waitFor();
  at.check('the overview is compared by default', [await picker(page).inputValue(), await paramOf(page, 'compare')], ['previous', null]);
  await go(page, `#sources?site=${SITE}&days=7`);
  await page.locator('table[aria-label=Sources]').waitFor();
  at.check('the sources are not', [await picker(page).inputValue(), await page.locator('.change').count()], ['none', 0]);
}

// Presses Tab until the choice has the focus. The text of its label also has those of its options.
async function tabToPicker(page) {
  const isFocused = () => page.evaluate(() => document.activeElement.labels?.[0]?.firstElementChild.textContent === 'Compare with');
  for (let presses = 0; presses < 150 && !(await isFocused()); presses += 1) await page.keyboard.press('Tab');
}

// Chooses two ranges without a pointer. Returns the days.
async function byKeyboard(at, page) {
  await go(page, `#overview?site=${SITE}&days=7`);
  await settled(page);
  await tabToPicker(page);
  await page.keyboard.type('With d');
  await page.getByLabel('First day compared').waitFor();
  const { from, to } = Object.fromEntries(await askedOf(page, 'insights/overview'));
  const shift = (date, days) => new Date(Date.parse(date) + days * 86_400_000).toISOString().slice(0, 10);
  at.check('the dates begin with as many days before', await paramOf(page, 'compare'), `${shift(from, -7)}..${from}`);
  await page.getByLabel('First day compared').fill(shift(from, -14));
  await page.getByLabel('Last day compared').fill(shift(from, -8));
  const compare = `${shift(from, -14)}..${shift(from, -7)}`;
  await page.waitForFunction((compare) => decodeURIComponent(location.hash).includes(compare), compare);
  await page.reload();
  await page.getByText('The changes are against').waitFor();
  await settled(page);
  const fields = await Promise.all(['First day compared', 'Last day compared'].map((label) => page.getByLabel(label).inputValue()));
  at.check('a link has both ranges', [await paramOf(page, 'compare'), ...fields], [compare, shift(from, -14), shift(from, -8)]);
  return { from, to, compare };
}

async function overview(at, page, { from, to, compare }) {
  const [first, end] = compare.split('..');
  const [now, before] = await Promise.all([
    at.ask('insights/overview', { from, to }),
    at.ask('insights/overview', { from: first, to: end, compare: 'none' }),
  ]);
  const shown = await page.$$eval('.tiles:not(.goals) .tile .change', (all) => all.map((one) => one.textContent.replaceAll(/[▲▼\s]+/g, ' ').trim()));
  const expected = ['visitors', 'visits', 'views', 'events', 'personalized'].map((key) => changeOf({ now: now.totals[key], before: before.totals[key] }));
  at.check('the changes of the tiles', shown, expected);
  const words = percent(Math.abs(now.totals.visitors / before.totals.visitors - 1));
  const sentence = await textOf(page.locator('.sentence'));
  at.check('the sentence names the other range', sentence.includes(`${words} ${now.totals.visitors > before.totals.visitors ? 'more' : 'fewer'} than in the range compared`), true);
  const lines = await page.locator('.legend bdi').allTextContents();
  at.check('each line of the chart has a second one', lines, ['Visitors', 'Page views', 'Visitors, compared', 'Page views, compared']);
  await page.getByText('As a table').click();
  const rows = page.locator('table[aria-label="Visitors and page views"] tbody tr');
  await rows.first().waitFor();
  const column = await rows.evaluateAll((rows) => rows.map((row) => Number(row.children[3].textContent.replaceAll(',', ''))));
  const past = now.series.t.filter((t) => t * 1000 <= Date.now()).length;
  at.check('the table has the days of both ranges', column, before.series.visitors.slice(0, past).reverse());
  const devices = await at.ask('insights/top', { from, to, compare, of: 'device', limit: '8' });
  const pairs = devices.rows.map((row, index) => changeOf({ now: row.views, before: devices.compared.rows[index].views }));
  at.check('a list has the change of each row', await changesIn(page, 'Devices', 3), pairs);
}

async function sources(at, page) {
  await page.getByRole('link', { name: 'Sources', exact: true }).click();
  await page.getByText('The changes are against').waitFor();
  await page.locator('table[aria-label=Devices] .change').first().waitFor();
  await settled(page);
  at.check('the next page has the same ranges', await paramOf(page, 'compare'), Object.fromEntries(await askedOf(page, 'insights/top')).compare);
  const { rows, total, compared } = await at.ask('insights/top', { ...Object.fromEntries(await askedOf(page, 'insights/top')), of: 'source' });
  const pairs = (of, words) => rows.map((row, index) => changeOf({ now: of(row), before: of(compared.rows[index]) }, words));
  at.check('the change of the visitors', await changesIn(page, 'Sources', 1), pairs(({ visitors }) => visitors));
  at.check('the change of the converted visitors', await changesIn(page, 'Sources', 4), pairs(({ goals }) => goals[0].converted));
  const words = `${percent(Math.abs(total.visitors / compared.total.visitors - 1))} ${total.visitors > compared.total.visitors ? 'more' : 'fewer'}`;
  at.check('the sentence of sources has the change', (await textOf(page.locator('.sentence'))).includes(`${words} than in the range compared`), true);
  const saved = page.waitForEvent('download');
  await page.getByRole('region', { name: 'Devices', exact: true }).getByRole('button', { name: 'CSV' }).click();
  const csv = readFileSync(await (await saved).path(), 'utf8').split('\r\n');
  at.check('the CSV names the range of each line', [csv[0].endsWith(',period'), csv[1].endsWith(',range'), csv.at(-2).endsWith(',compared')], [true, true, true]);
}

// Of a running range, the elapsed part is compared with the period before.
async function funnel(at, page) {
  await show(page, `#funnels?site=${SITE}&days=7&step=page:/&step=product&step=purchase&group=source&compare=previous`);
  const answer = await askAgain(at, page, 'insights/funnel');
  const pairs = answer.steps.map(({ reached }, index) => changeOf({ all: reached, now: answer.elapsed.steps[index].reached, before: answer.compared.steps[index].reached }));
  at.check('the changes of a funnel', await changesIn(page, 'Funnel', 1), pairs);
  const shares = answer.steps.map(({ ofFirst }, index) => changeOf({ all: ofFirst, now: answer.elapsed.steps[index].ofFirst, before: answer.compared.steps[index].ofFirst }, percent));
  at.check('and of its shares', await changesIn(page, 'Funnel', 2), shares);
  const share = `${percent(answer.compared.steps.at(-1).ofFirst)} in the period before`;
  at.check('the sentence has the earlier share', (await textOf(page.locator('.sentence'))).includes(share), true);
}

async function retention(at, page) {
  await show(page, `#retention?site=${SITE}&days=30&compare=previous`);
  const { cohorts, elapsed, compared } = await askAgain(at, page, 'insights/retention');
  const visitorsOf = ({ cohorts }) => cohorts.reduce((total, { visitors }) => total + visitors, 0);
  const row = page.locator('table.heat tbody tr', { hasText: 'All, compared' });
  at.check('the heat map has the other range', await row.locator('td').first().textContent(), whole.format(visitorsOf(compared)));
  const sentence = await textOf(page.locator('.sentence'));
  const now = visitorsOf(elapsed ?? { cohorts });
  at.check('the sentence of retention has the change', sentence.includes(percent(Math.abs(now / visitorsOf(compared) - 1))), true);
}

async function paths(at, page) {
  await show(page, `#paths?site=${SITE}&days=30&compare=previous`);
  const { next, elapsed, compared } = await askAgain(at, page, 'insights/paths');
  const visitsOf = (tree, { kind, value }) => {
    const row = tree.next.find((one) => one.kind === kind && one.value === value);
    return row ? row.visits : tree.more === 0 ? 0 : undefined;
  };
  const pairs = next.map((row) => {
    const [now, before] = [elapsed, compared].map((tree) => visitsOf(tree, row));
    return now === undefined || before === undefined ? undefined : changeOf({ all: row.visits, now, before });
  });
  const shown = await changesIn(page, 'Level 1', 2);
  at.check('the changes of a level', shown, pairs);
}

async function zones(at, page) {
  await show(page, `#pages?site=${SITE}&days=30&path=/&compare=previous`);
  const { zones, elapsed, compared } = await askAgain(at, page, 'insights/zones');
  const hero = ({ zones }) => zones.find(({ zone }) => zone === 'hero');
  const of = (answer, key) => hero(answer).variants.find((one) => one.key === key)?.visitors ?? 0;
  const pairs = hero({ zones }).variants.map(({ key }) => changeOf({ all: of({ zones }, key), now: of(elapsed, key), before: of(compared, key) }));
  at.check('the changes of the variants', await changesIn(page, 'Variants of hero', 1), pairs);
}

// Two questions of a marketer, by clicks alone: mobile against desktop, and the value by country.
async function questions(at, page) {
  await go(page, `#overview?site=${SITE}`);
  await page.getByRole('link', { name: 'Sources', exact: true }).click();
  await page.locator('table[aria-label=Devices] tbody tr').first().waitFor();
  await settled(page);
  const asked = Object.fromEntries(await askedOf(page, 'insights/top'));
  const cells = (label) =>
    page.$$eval(`table[aria-label="${label}"] tbody tr`, (rows) => rows.map((row) => [...row.children].map((cell) => cell.textContent)));
  const devices = await at.ask('insights/top', { ...asked, of: 'device' });
  const rates = devices.rows.map(({ value, goals }) => [value ?? '(unknown)', percent(goals[0].rate)]);
  at.check('mobile against desktop', (await cells('Devices')).map((row) => [row[0], row[5]]), rates);
  const countries = await at.ask('insights/top', { ...asked, of: 'country' });
  const values = countries.rows.map(({ goals }) => goals[0].currencies.map(({ currency, sum }) => `${whole.format(sum)} ${currency}`).join(', ') || '0');
  at.check('the value by country', (await cells('Countries')).map((row) => row[6]), values);
}

async function nothing(at, page) {
  await go(page, `#overview?site=${SITE}&days=7`);
  await settled(page);
  await picker(page).selectOption('none');
  await page.getByText('The changes are against').waitFor({ state: 'detached' });
  await settled(page);
  const sentence = await textOf(page.locator('.sentence'));
  at.check('a comparison can be ended', [await page.locator('.change').count(), sentence.includes(' than ')], [0, false]);
}

async function wrongRange(at, page) {
  await go(page, `#overview?site=${SITE}&days=7&compare=2026-01-05`);
  await page.getByRole('alert').first().waitFor();
  at.check('a wrong range in the URL has the words of the server', (await page.getByRole('alert').first().textContent()).includes("two times with '..'"), true);
}

async function looks(at, [look, options]) {
  const hash = `#sources?site=${SITE}&days=7&compare=2026-01-05..2026-01-12`;
  const { page, context } = await openWithAxe(at, hash, options);
  await page.locator('table[aria-label=Devices] .change').first().waitFor();
  await settled(page);
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  at.check(`nothing is wider than the screen, ${look}: compared sources`, width <= (options.viewport?.width ?? 1200), true);
  await checkRules(at, page, `${look}: compared sources`);
  await picture(page, `compared-${look.replace(' ', '-')}`);
  await context.close();
}
