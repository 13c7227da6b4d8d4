// Funnels, retention and paths: chosen by click, kept in the URL, with the numbers of the API.
'use strict';
const { SITE, go, settled } = require('./bench.cjs');

module.exports = async function journeys(at) {
  const { page, context, messages } = await at.open(`#funnels?site=${SITE}`);
  await funnel(at, page);
  await funnelByKeyboard(at, page);
  await focusInFunnel(at, page);
  await quickClicks(at, page);
  await pageWithoutPath(at, page);
  await funnelByCountry(at, page);
  await retention(at, page);
  await paths(at, page);
  await retentionOfShortWeek(at, page);
  at.check('journeys leave no message of the browser', messages, []);
  await context.close();
};

const whole = new Intl.NumberFormat('en-GB');
const percent = (share, digits = 1) => (share === null ? '–' : `${(100 * share).toFixed(digits)} %`);
const sentenceOf = async (page) => (await page.locator('.sentence').innerText()).replaceAll(/\s+/g, ' ').trim();
const stepsOf = (page) => page.evaluate(() => new URLSearchParams(location.hash.split('?')[1]).getAll('step'));
const cellsOf = (page, label) =>
  page.$$eval(`table[aria-label="${label}"] tbody tr`, (rows) =>
    rows.map((row) => [...row.querySelectorAll('td')].map((cell) => cell.textContent)),
  );

// Returns the parameters of the last question of this kind, as [name, value].
const askedOf = (page, path) =>
  page.evaluate((path) => {
    const asked = performance.getEntriesByType('resource').filter(({ name }) => name.includes(path));
    return [...new URL(asked.at(-1).name).searchParams];
  }, path);

// Asks the server what the page asked.
async function askAgain(at, page, path) {
  const response = await fetch(`${at.url}/${path}?${new URLSearchParams(await askedOf(page, `${path}?`))}`, {
    headers: { Authorization: `Bearer ${at.token}` },
  });
  return response.json();
}

const add = (page, group, name) =>
  page
    .getByRole('group', { name: `Add a step: ${group}` })
    .getByRole('button', { name: `+ ${name}`, exact: true })
    .click();

async function funnel(at, page) {
  await page.getByText('No step is chosen.').waitFor();
  await add(page, 'Goals', 'Purchase');
  await page.getByRole('listitem').filter({ hasText: 'Purchase' }).waitFor();
  at.check('one step is no funnel', (await sentenceOf(page)).startsWith('Choose 2 to 8 steps'), true);
  await add(page, 'Pages', '/');
  await page.getByRole('button', { name: 'Move step 2 up: /' }).click();
  await page.getByLabel('Another path or event').fill('/products/*');
  await page.keyboard.press('Enter');
  await page.getByRole('button', { name: 'Move step 3 up: /products/*' }).click();
  await page.getByLabel('Compare by').selectOption('source');
  await page.getByText('By source').waitFor();
  await settled(page);
  const steps = ['page:/', 'page:/products/*', 'purchase'];
  at.check('the URL keeps the steps in their order', await stepsOf(page), steps);
  const answer = await askAgain(at, page, 'insights/funnel');
  const shown = (await cellsOf(page, 'Funnel')).map((cells) => cells.slice(0, 3));
  at.check(
    'the numbers of a funnel',
    shown,
    answer.steps.map(({ reached, ofFirst, ofBefore }) => [whole.format(reached), percent(ofFirst), percent(ofBefore)]),
  );
  const groups = (await cellsOf(page, 'Funnel by value')).map((cells) => cells.map((cell) => cell.split(' ')[0].replaceAll(',', '')));
  at.check(
    'a funnel by source',
    groups.map((cells) => cells.map(Number.parseFloat)),
    answer.rows.map((row) => row.steps.map(({ reached }) => reached)),
  );
  const last = answer.steps.at(-1);
  const begin = `${whole.format(last.reached)} visitors of ${whole.format(answer.steps[0].reached)} (${percent(last.ofFirst)}) went from “/” to “Purchase”.`;
  at.check('the sentence of a funnel', (await sentenceOf(page)).startsWith(begin), true);
  await page.locator('summary', { hasText: 'left after “/”' }).click();
  await page.locator('table[aria-label="Next pages after /"]').waitFor();
  const left = (await cellsOf(page, 'Next pages after /')).map(([number]) => Number(number.replaceAll(',', '')));
  at.check('the next pages of those who left', left, [answer.steps[0].left.exits, ...answer.steps[0].left.next.map(({ count }) => count)]);
  await page.reload();
  await page.getByText('By source').waitFor();
  at.check('a link shows the same funnel', (await cellsOf(page, 'Funnel')).length, 3);
  for (let steps = 3; steps < 8; steps += 1)
    await add(page, 'Events', 'Product Added').then(() => page.getByRole('button', { name: `Remove step ${steps + 1}: ` }).waitFor());
  at.check(
    'a funnel has at most 8 steps',
    await page.getByRole('group', { name: 'Add a step: Goals' }).getByRole('button').first().isDisabled(),
    true,
  );
  await settled(page);
  at.check('the server takes 8 steps', await page.getByRole('alert').count(), 0);
  for (let steps = 8; steps > 3; steps -= 1) await page.getByRole('button', { name: `Remove step ${steps}: ` }).click();
}

// Removes a step and adds it again without a pointer.
async function funnelByKeyboard(at, page) {
  await page.getByRole('button', { name: 'Remove step 3: Purchase' }).focus();
  await page.keyboard.press('Enter');
  await page.getByRole('button', { name: 'Remove step 3: Purchase' }).waitFor({ state: 'detached' });
  await page.getByRole('group', { name: 'Add a step: Goals' }).getByRole('button', { name: '+ Saw a product' }).focus();
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await page.getByRole('button', { name: 'Remove step 3: Purchase' }).waitFor();
  at.check('the keyboard changes a funnel', await stepsOf(page), ['page:/', 'page:/products/*', 'purchase']);
}

// The focus stays at the step that moves, and then at the place of the removed one.
async function focusInFunnel(at, page) {
  const use = async (label, next) => {
    await page.getByRole('button', { name: label }).focus();
    await page.keyboard.press('Enter');
    await page.getByRole('button', { name: next }).or(page.getByText(next)).waitFor();
    return page.evaluate(() => document.activeElement.ariaLabel ?? document.activeElement.textContent.trim());
  };
  const found = [
    await use('Move step 3 up: Purchase', 'Move step 2 up: Purchase'),
    await use('Move step 2 up: Purchase', 'Remove step 1: Purchase'),
    await use('Remove step 2: /', 'Remove step 2: /products/*'),
    await use('Remove step 2: /products/*', 'Choose 2 to 8 steps below'),
    await use('Remove step 1: Purchase', 'No step is chosen.'),
  ];
  const expected = ['Move step 2 up: Purchase', 'Remove step 1: Purchase', 'Remove step 2: /products/*', 'Remove step 1: Purchase', 'No step is chosen.'];
  at.check('a button of a step that moves or goes leaves the focus in the list', found, expected);
  const other = page.getByLabel('Another path or event');
  for (const text of ['  ', ' /tents ']) await other.fill(text).then(() => page.keyboard.press('Enter'));
  await page.getByRole('button', { name: 'Remove step 1: /tents' }).waitFor();
  at.check('a step has no blanks around it, and an empty one is ignored', await stepsOf(page), ['page:/tents']);
}

// Clicks several times before the page is drawn again. Each click changes the steps that the one before it left.
async function quickClicks(at, page) {
  const click = async (...locators) => {
    const buttons = await Promise.all(locators.map((locator) => locator.elementHandle()));
    await page.evaluate((buttons) => buttons.map((button) => button.click()), buttons);
  };
  const goal = (name) => page.getByRole('group', { name: 'Add a step: Goals' }).getByRole('button', { name: `+ ${name}`, exact: true });
  const button = (name) => page.getByRole('button', { name });
  await click(goal('Purchase'), goal('Saw a product'));
  await button('Remove step 3: Saw a product').waitFor();
  const [tents, purchase, seen] = await stepsOf(page);
  at.check('two steps are added at once', [tents, purchase], ['page:/tents', 'purchase']);
  await click(button('Move step 3 up'), button('Move step 3 up'));
  await button('Remove step 1: Saw a product').waitFor();
  at.check('a step moves up twice at once', await stepsOf(page), [seen, tents, purchase]);
  await click(button('Remove step 1'), button('Remove step 1'), button('Remove step 3'));
  await button('Remove step 1: /tents').waitFor();
  at.check('a step that is removed twice takes no other one', await stepsOf(page), [tents]);
  await click(goal('Purchase'));
  const up = await button('Move step 2 up: Purchase').elementHandle();
  const field = await page.getByLabel('Another path or event').elementHandle();
  await page.evaluate(([up, field]) => [up.click(), field.focus()], [up, field]);
  await button('Remove step 1: Purchase').waitFor();
  at.check('a field that has the focus by then keeps it', await field.evaluate((field) => document.activeElement === field), true);
}

// A page event can have no path.
async function pageWithoutPath(at, page) {
  const view = (properties) => ({ type: 'page', anonId: 'journeys-no-path', properties });
  await at.send([view({ path: '/before-no-path' }), view({}), view({ path: '/after-no-path' })]);
  await go(page, `#paths?site=${SITE}&path=/before-no-path`);
  await page.locator('table[aria-label="Level 2"]').waitFor();
  at.check('a page without a path is unknown in a level', await page.locator('table[aria-label="Level 1"] tbody bdi').allTextContents(), ['(unknown)']);
  at.check('and in the title of the next one', await page.getByText('2. After (unknown)').count(), 1);
  at.check('and in the sentence', (await sentenceOf(page)).includes('Most often, (unknown) was next'), true);
  await go(page, `#funnels?site=${SITE}&step=page:/before-no-path&step=purchase`);
  await page.locator('summary', { hasText: 'left after “/before-no-path”' }).click();
  await page.locator('table[aria-label="Next pages after /before-no-path"]').waitFor();
  const next = await page.locator('table[aria-label="Next pages after /before-no-path"] tbody bdi').allTextContents();
  at.check('and among the next pages of a funnel', next, ['No later page', '(unknown)']);
}

async function funnelByCountry(at, page) {
  await go(page, `#funnels?site=${SITE}&step=page:/&step=purchase&group=country`);
  await page.getByText('By country').waitFor();
  await settled(page);
  const { rows } = await askAgain(at, page, 'insights/funnel');
  const regions = new Intl.DisplayNames(['en-GB'], { type: 'region' });
  const names = await page.locator('table[aria-label="Funnel by value"] tbody th').allTextContents();
  at.check('a funnel by country names countries', names, rows.map(({ value }) => (value === null ? '(unknown)' : regions.of(value))));
}

// The week before the clock changes in spring has 167 hours. It is over if the curve has it.
async function retentionOfShortWeek(at, page) {
  const answer = {
    cohorts: [{ t: Date.parse('2026-03-22T23:00Z') / 1000, visitors: 10, returned: [4] }],
    curve: [{ period: 0, visitors: 10, returned: 4, share: 0.4 }],
    to: '2026-03-30T00:00:00+02:00',
  };
  await page.route('**/insights/retention?*', async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, json: { ...(await response.json()), ...answer } });
  });
  await go(page, `#retention?site=${SITE}&from=2026-03-23&to=2026-03-30`);
  await page.locator('.heat tbody th', { hasText: '23 Mar 2026' }).waitFor();
  at.check('a short week that is over says nothing', await page.locator('.heat td', { hasText: 'so far' }).count(), 0);
  await page.unroute('**/insights/retention?*');
}

async function retention(at, page) {
  await go(page, `#retention?site=${SITE}`);
  await page.getByText('Same week').waitFor();
  await page.getByLabel('Returning event').selectOption({ label: 'Purchase' });
  await page.waitForFunction(() => location.hash.includes('return=purchase'));
  await settled(page);
  const { cohorts, curve } = await askAgain(at, page, 'insights/retention');
  const rows = (await cellsOf(page, 'New visitors who returned')).map((cells) =>
    cells.filter(Boolean).map((cell) => cell.replace(' * so far', '')),
  );
  const cell = (returned, visitors) => `${percent(returned / visitors, 0)}${whole.format(returned)}`;
  const ofCohorts = cohorts.map(({ visitors, returned }) => [
    whole.format(visitors),
    ...(visitors > 0 ? returned.map((one) => cell(one, visitors)) : []),
  ]);
  at.check('each cell of the heat map has its share and its number', rows.slice(1), ofCohorts);
  const all = curve.filter(({ visitors }) => visitors > 0).map(({ returned, visitors }) => cell(returned, visitors));
  at.check('the first row has all visitors', rows[0].slice(1), all);
  at.check('the sentence of retention', (await sentenceOf(page)).includes(percent(curve[1].share)), true);
  const open = await page.locator('.heat tbody tr').last().locator('td', { hasText: 'so far' }).count();
  at.check('a week that is not over says so', open, 1);
}

async function paths(at, page) {
  await go(page, `#paths?site=${SITE}`);
  await page.locator('table[aria-label="Level 3"]').waitFor();
  await settled(page);
  const answer = await askAgain(at, page, 'insights/paths');
  const numbersOf = async (level) => (await cellsOf(page, `Level ${level}`)).map(([number]) => Number(number.replaceAll(',', '')));
  const visits = (rows) => rows.map((row) => row.visits);
  at.check('the first level', await numbersOf(1), visits(answer.next));
  await page.locator('table[aria-label="Level 1"] button').nth(1).click();
  await page.locator('table[aria-label="Level 1"] button').nth(1).and(page.locator('[aria-pressed=true]')).waitFor();
  at.check('a click shows the second level', await numbersOf(2), visits(answer.next[1].next));
  at.check('and its first row the third', await numbersOf(3), visits(answer.next[1].next[0].next));
  at.check(
    'the sentence of paths',
    (await sentenceOf(page)).startsWith(
      `${whole.format(answer.visits)} visits saw /. ${percent(answer.exits / answer.visits)} ended there.`,
    ),
    true,
  );
  await page.getByLabel('Direction').selectOption('before');
  await page.getByText('1. Before /').waitFor();
  await settled(page);
  const before = await askAgain(at, page, 'insights/paths');
  at.check('the level before the page', [before.direction, await numbersOf(1)], ['before', visits(before.next)]);
  await page.getByLabel('Page', { exact: true }).fill('/tents');
  await page.keyboard.press('Enter');
  await page.getByText('1. Before /tents').waitFor();
  at.check('another page forgets the chosen rows', page.url().includes('first='), false);
}
