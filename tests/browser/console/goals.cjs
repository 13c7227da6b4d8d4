// The goals of the site on the overview and on the page of sources: their numbers and sentences are those of the API.
'use strict';
const { SITE, go, settled } = require('./bench.cjs');

const CURRENCIES = 'fjell-currencies';

module.exports = async function goals(at) {
  const { page, context, messages } = await at.open(`#overview?site=${SITE}&days=7`);
  await overview(at, page);
  await segment(at, page);
  await sources(at, page);
  await property(at, page);
  await twoCurrencies(at, page);
  await withoutGoals(at, page);
  at.check('goals leave no message of the browser', messages, []);
  await context.close();
};

const whole = new Intl.NumberFormat('en-GB');
const percent = (share) => `${(100 * share).toFixed(1)} %`;
const textOf = async (locator) => (await locator.innerText()).replaceAll(/\s+/g, ' ').trim();
const sentenceOf = (page) => textOf(page.locator('.sentence'));
const tileOf = (page, name) => page.locator('.goals .tile', { has: page.locator('.tile-label', { hasText: name }) });
const factsOf = (tile) => tile.locator('dd').evaluateAll((facts) => facts.map((fact) => fact.firstChild.textContent));

// Returns the parameters of the last question of this kind, as the page asked it.
const askedOf = (page, path) =>
  page.evaluate((path) => {
    const asked = performance.getEntriesByType('resource').filter(({ name }) => name.includes(path));
    return Object.fromEntries(new URL(asked.at(-1).name).searchParams);
  }, path);

async function rangeOf(page, path) {
  const { from, to } = await askedOf(page, path);
  return { from, to };
}

async function overview(at, page) {
  await page.locator('.goals .tile').nth(1).waitFor();
  await page.locator('.sentence').getByText('brought').waitFor();
  await settled(page);
  const range = await rangeOf(page, 'insights/overview');
  const { totals, elapsed, compared } = await at.ask('insights/overview', { ...range, goal: 'purchase' });
  const [{ conversions, converted, rate, amount }] = totals.goals;
  const tile = tileOf(page, 'Purchase');
  at.check('the conversions of a goal', await textOf(tile.locator('.tile-value')), whole.format(conversions));
  const facts = [whole.format(converted), percent(rate), `${whole.format(amount)} NOK`];
  at.check('its visitors, rate and value', await factsOf(tile), facts);
  at.check('a goal of a page has no value', (await factsOf(tileOf(page, 'Saw a product'))).length, 2);
  const change = elapsed.totals.goals[0].conversions / compared.totals.goals[0].conversions - 1;
  at.check('the change of its conversions', (await textOf(tile.locator('.change').first())).includes(`${percent(Math.abs(change))} from ${whole.format(compared.totals.goals[0].conversions)}`), true);
  const { rows, total } = await at.ask('insights/top', { ...range, of: 'source', goal: 'purchase' });
  const share = percent(rows[0].goals[0].conversions / total.goals[0].conversions);
  const words = `${rows[0].value} brought ${share} of the ${whole.format(conversions)} conversions of “Purchase”.`;
  const sentence = await sentenceOf(page);
  at.check('the overview begins with the visitors in words', sentence.startsWith(`${whole.format(totals.visitors)} visitors, `), true);
  at.check('and with the best source', sentence.endsWith(words), true);
  const first = await page.locator('main > *').evaluateAll((all) => all.find((one) => !one.matches('h1'))?.className);
  at.check('the sentence is first', first, 'sentence');
}

// Chooses the segment of the site, and all visitors again.
async function segment(at, page) {
  const picker = page.getByLabel('Segment');
  const choose = async (key) => {
    await picker.selectOption(key);
    await page.waitForFunction((key) => (new URLSearchParams(location.hash.split('?')[1]).get('segment') ?? '') === key, key);
    await settled(page);
    return (await sentenceOf(page)).split(' ')[0];
  };
  const range = await rangeOf(page, 'insights/overview');
  const all = await at.ask('insights/overview', range);
  const mobile = await at.ask('insights/overview', { ...range, device: 'mobile' });
  at.check('the visitors of a segment', await choose('mobile'), whole.format(mobile.totals.visitors));
  at.check('each question names the segment', (await askedOf(page, 'insights/top')).segment, 'mobile');
  at.check('all visitors again', await choose(''), whole.format(all.totals.visitors));
}

// Chooses a property, and compares its table with the answer of the API.
async function property(at, page) {
  await go(page, `#sources?site=${SITE}&days=7`);
  const picker = page.getByLabel('Property');
  at.check('the first property is chosen', await picker.inputValue(), 'list');
  await picker.selectOption('quantity');
  const table = page.locator('table[aria-label="Properties"]');
  await table.getByText('quantity', { exact: true }).waitFor();
  await settled(page);
  const asked = await askedOf(page, 'of=property');
  at.check('the question names the property', asked.of, 'property:quantity');
  const { rows } = await at.ask('insights/top', asked);
  const expected = rows.map(({ value, visitors, visits, events }) => [value ?? '(no value)', ...[visitors, visits, events].map((number) => whole.format(number))]);
  const shown = await table.locator('tbody tr').evaluateAll((lines) => lines.map((line) => [...line.children].slice(0, 4).map((cell) => cell.textContent)));
  at.check('the rows of a property', shown, expected);
}

async function sources(at, page) {
  await go(page, `#sources?site=${SITE}&days=7`);
  for (const [of, label] of [
    ['channel', 'Channels'],
    ['source', 'Sources'],
    ['campaign', 'Campaigns'],
  ]) {
    for (const [goal, name] of [
      ['purchase', 'Purchase'],
      ['product', 'Saw a product'],
    ]) {
      await page.getByLabel('Goal').selectOption({ label: name });
      await page.waitForFunction((goal) => location.hash.includes(`goal=${goal}`) || goal === 'purchase', goal);
      await page.locator('.sentence').getByText(name).waitFor();
      await settled(page);
      const range = await rangeOf(page, 'insights/top');
      const { rows, total } = await at.ask('insights/top', { ...range, of, goal, limit: '20' });
      const expected = rows.map(({ visitors, visits, goals: [one] }) =>
        [visitors, visits, one.conversions, one.converted]
          .map((value) => whole.format(value))
          .concat([percent(one.rate), goal === 'product' ? '–' : one.currencies.length > 0 ? `${whole.format(one.amount)} NOK` : '0']),
      );
      const shown = await page.$$eval(`table[aria-label="${label}"] tbody tr`, (lines) =>
        lines.map((line) => [...line.querySelectorAll('td')].map((cell) => cell.textContent)),
      );
      at.check(`the rows of ${label} for ${name}`, shown, expected);
      const begin = `${whole.format(total.visits)} visits by ${whole.format(total.visitors)} visitors.`;
      at.check(`the sentence of sources for ${name}`, (await sentenceOf(page)).startsWith(begin), true);
    }
  }
  const saved = page.waitForEvent('download');
  await page.getByRole('region', { name: 'Campaigns', exact: true }).getByRole('button', { name: 'CSV' }).click();
  at.check('the CSV of the campaigns', (await saved).suggestedFilename(), `campaign-${SITE}.csv`);
  await page.getByRole('button', { name: 'sunday-letter' }).click();
  await page.locator('.chip').waitFor();
  at.check('a click on a source filters', await page.locator('.chip bdi').textContent(), 'sunday-letter');
  await settled(page);
  const { rows } = await at.ask('insights/top', { ...(await askedOf(page, 'insights/top')), of: 'country' });
  const names = await page.locator('table[aria-label=Countries] tbody th').allTextContents();
  const regions = new Intl.DisplayNames(['en-GB'], { type: 'region' });
  at.check('countries have their names', names.sort(), rows.map(({ value }) => (value === null ? '(unknown)' : regions.of(value))).sort());
}

// Amounts of two currencies are listed, and never added.
async function twoCurrencies(at, page) {
  const order = (number, currency) => ({
    type: 'track',
    event: 'Order Placed',
    anonId: CURRENCIES,
    properties: { revenue: number, currency },
  });
  const url = 'https://fjell.example/?utm_source=two-currencies';
  await at.send([{ type: 'page', anonId: CURRENCIES, properties: { path: '/', url } }, order(10.5, 'EUR'), order(2000, 'NOK')]);
  await go(page, `#sources?site=${SITE}&days=1&source=two-currencies`);
  const row = page.locator('table[aria-label=Sources] tbody tr', { hasText: 'two-currencies' });
  await row.waitFor();
  const value = (await row.locator('td').last().textContent()).split(', ').sort();
  at.check('two currencies are listed', value, ['10.5 EUR', '2,000 NOK']);
}

async function withoutGoals(at, page) {
  await page.route('**/sites', async (route) => {
    const response = await route.fetch();
    const answer = await response.json();
    await route.fulfill({ response, json: { ...answer, sites: answer.sites.map((site) => ({ ...site, goals: [] })) } });
  });
  await go(page, `#sources?site=${SITE}`);
  await page.reload();
  await page.getByText('The site has no goals.').waitFor();
  await settled(page);
  const columns = await page.locator('table[aria-label=Sources] thead th').allTextContents();
  at.check('a site without goals has its visits by source', columns, ['Source', 'Visitors', 'Visits']);
  await go(page, `#overview?site=${SITE}`);
  await page.locator('.plot canvas').waitFor();
  at.check('and no tiles of goals', await page.locator('.goals').count(), 0);
}
