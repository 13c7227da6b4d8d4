// The list of visitors and the search for a visitor: their rows are those of the API, and no URL has the text of a search.
'use strict';
const { SITE, go, settled } = require('./bench.cjs');

const EMAIL = 'Åse.Secret@Fjell.example';
const ANON_ID = 'found-by-email';
// A marketer needs at most so many actions for the newest leads.
const ACTIONS_MAX = 8;

module.exports = async function people(at) {
  await at.send([
    { type: 'page', anonId: ANON_ID, properties: { path: '/tents' } },
    { type: 'identify', anonId: ANON_ID, userId: 'åse', traits: { email: EMAIL, plan: 'pro' } },
  ]);
  const tab = await at.open(`#overview?site=${SITE}&days=7`, { acceptDownloads: true });
  await newestLeads(at, tab.page);
  await filters(at, tab.page);
  await search(at, tab);
  at.check('the list of visitors leaves no message of the browser', tab.messages, []);
  await tab.context.close();
  await withoutTraits(at);
};

const whole = new Intl.NumberFormat('en-GB');
const textOf = async (locator) => (await locator.innerText()).replaceAll(/\s+/g, ' ').trim();
const namesOf = (page) => page.locator('table[aria-label=Visitors] tbody th bdi').allTextContents();
const nameOf = ({ traits, userId, anonId }) => traits.email ?? userId ?? anonId;

// Returns the parameters of the last question for the list, as the page asked it.
const askedOf = (page) =>
  page.evaluate(() => {
    const asked = performance.getEntriesByType('resource').filter(({ name }) => name.includes('insights/visitors'));
    return Object.fromEntries(new URL(asked.at(-1).name).searchParams);
  });

// Who are the 20 newest buyers? Two actions from the overview.
async function newestLeads(at, page) {
  let actions = 0;
  const act = async (action) => {
    actions += 1;
    await action;
  };
  await page.locator('.plot canvas').waitFor();
  await act(page.getByRole('link', { name: 'Visitors', exact: true }).click());
  await page.getByText('Newest activity first').waitFor();
  await act(page.getByLabel('Reached').selectOption({ label: 'Purchase' }));
  await page.getByText('Newest first: Purchase').waitFor();
  await settled(page);
  at.check('the newest leads take few actions', actions <= ACTIONS_MAX, true);
  const answer = await at.ask('insights/visitors', await askedOf(page));
  at.check('20 rows, newest first', [(await namesOf(page)).length, await namesOf(page)], [20, answer.rows.map(nameOf)]);
  const values = await page.locator('table[aria-label=Visitors] td[data-name=Value]').allInnerTexts();
  const expected = answer.rows.map(({ amount, currency }) => (amount === null ? '–' : `${amount.toFixed(2)} ${currency}`));
  at.check('with the values of their conversions', values.map((text) => text.trim()), expected);
  const begin = `${whole.format(answer.total)} visitors reached “Purchase” in this range. The newest here was`;
  at.check('the list begins with its visitors in words', (await textOf(page.locator('.sentence'))).startsWith(begin), true);
  const saved = page.waitForEvent('download');
  await page.getByRole('button', { name: 'CSV' }).click();
  at.check('the CSV of the list', (await saved).suggestedFilename(), `visitors-${SITE}.csv`);
  await page.getByText('Next page').click();
  await page.getByText('First page').waitFor();
  await settled(page);
  const next = await at.ask('insights/visitors', await askedOf(page));
  at.check('the next page', await namesOf(page), next.rows.map(nameOf));
  at.check('which begins after the first one', (await askedOf(page)).after, answer.next);
  await page.getByText('First page').click();
  await page.waitForFunction((name) => document.querySelector('table[aria-label=Visitors] tbody th bdi')?.textContent === name, nameOf(answer.rows[0]));
  await page.locator('table[aria-label=Visitors] tbody th a').first().click();
  await page.locator('.timeline li').first().waitFor();
  await settled(page);
  at.check('a row opens the visitor', await page.locator('.profile-head h2 bdi').textContent(), answer.rows[0].anonId);
  await page.getByRole('link', { name: 'All visitors' }).click();
  await page.getByText('Newest first: Purchase').waitFor();
}

async function filters(at, page) {
  await go(page, `#visitors?site=${SITE}&days=7`);
  await page.getByText('Newest activity first').waitFor();
  await page.getByLabel('Segment').selectOption('mobile');
  await page.waitForFunction(() => location.hash.includes('segment=mobile'));
  await page.getByLabel('Range').selectOption('30');
  await settled(page);
  const answer = await at.ask('insights/visitors', await askedOf(page));
  at.check('a segment and a range select visitors', await namesOf(page), answer.rows.map(nameOf));
  const devices = await page.locator('table[aria-label=Visitors] td[data-name=Device]').allInnerTexts();
  at.check('only with such devices', [...new Set(devices)], ['mobile']);
}

async function search(at, { page, requests }) {
  await go(page, `#visitors?site=${SITE}&days=7`);
  const before = requests.length;
  const asked = page.waitForRequest((request) => request.headers()['x-visitor'] !== undefined);
  await page.getByLabel('Whole text').fill('åse.secret@fjell.EXAMPLE');
  await page.getByText('Search', { exact: true }).click();
  await page.getByText('1 visitor has this text in email.').waitFor();
  await settled(page);
  const header = (await asked).headers()['x-visitor'];
  at.check('the header has the text', new URLSearchParams(header).get('email'), 'åse.secret@fjell.EXAMPLE');
  at.check('the found visitor', await namesOf(page), [EMAIL]);
  const urls = [...requests.slice(before), page.url(), await page.evaluate(() => JSON.stringify(history.state))];
  const entries = await page.evaluate(() => performance.getEntries().map(({ name }) => name));
  const named = [...urls, ...entries].filter((url) => /secret/i.test(url));
  at.check('no URL and no fragment has the text', named, []);
  const stored = await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }]));
  at.check('the tab stores no text', /secret/i.test(stored), false);
  await page.locator('table[aria-label=Visitors] tbody th a').click();
  await page.locator('.timeline').getByText('/tents').waitFor();
  at.check('the found visitor opens', new URLSearchParams(page.url().split('?')[1]).get('anonId'), ANON_ID);
  await page.goBack();
  await page.getByLabel('Whole text').fill('nobody');
  await page.keyboard.press('Enter');
  await page.getByText('0 visitors have this text in email.').waitFor();
  await page.getByRole('button', { name: 'All visitors' }).click();
  await page.getByText('Newest activity first').waitFor();
}

// A site without searchable traits has no search, and its rows have IDs.
async function withoutTraits(at) {
  const { page, context } = await at.open('#health', {});
  await page.route('**/sites', async (route) => {
    const response = await route.fetch();
    const answer = await response.json();
    await route.fulfill({ response, json: { ...answer, sites: answer.sites.map((site) => ({ ...site, searchable: [], goals: [] })) } });
  });
  await page.goto(`${at.url}/#visitors?site=${SITE}`);
  await page.reload();
  await page.getByText('Newest activity first').waitFor();
  await settled(page);
  at.check('a site without searchable traits has no search', await page.getByLabel('Whole text').count(), 0);
  at.check('a site without goals has no choice of them', await page.getByLabel('Reached').count(), 0);
  await context.close();
}
