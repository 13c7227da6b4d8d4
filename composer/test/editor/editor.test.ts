import assert from 'node:assert/strict';
import { readdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, beforeEach, describe, test } from 'node:test';
import type { BrowserContext, Page } from 'playwright-core';
import { toPuck, type Layout } from '../../src/core/index.js';
import { type Built, type Desk, actionsOn, build, startDesk } from './desk.js';
import { stepsOf } from './steps.js';
import type { Team, TeamOptions } from './team.js';

describe('the editor', () => {
  let team: Team;
  let context: BrowserContext;
  let page: Page;
  let faults: string[];
  let desk: Desk;
  let built: Built;

  before(async () => {
    built = await build();
  });
  beforeEach(() => begin());
  async function begin(options: TeamOptions = {}): Promise<void> {
    await team?.stop();
    desk = await startDesk(built, options);
    ({ team, context, page, faults } = desk);
    Object.assign(desk, actionsOn(() => page, team)); // a test opens another page
  }
  after(async () => team?.stop());

  const text = (file: string) => desk.text(file);
  const open = (route: string) => desk.open(route);
  const preview = () => desk.preview();
  const zone = (name: string) => desk.zone(name);
  const tab = (name: string) => desk.tab(name);
  const write = (block: string, field: string, value: string) => desk.write(block, field, value);
  const save = (message: string, button?: string) => desk.save(message, button);
  const lint = () => desk.lint();
  const { checkAxe } = stepsOf(() => ({ team, page }));

  test('every page in every version of its zones is shown, and none has changed by that', async () => {
    const files = readdirSync(path.join(team.directory, 'routes'), { recursive: true }).map(String).filter((name) => name.endsWith('.json'));
    let versions = 0;
    for (const file of files.sort()) {
      const route = JSON.parse(text(`routes/${file}`));
      if (!route.layout) continue;
      await page.getByLabel('Search').fill(route.path);
      await open(route.path);
      const zones = Object.keys(toPuck(route.layout as Layout).root.props!.$hidden ?? {});
      for (const name of zones) {
        await zone(name);
        for (const key of await page.getByRole('tab').allTextContents()) {
          await tab(key).click();
          await page.getByRole('tab', { name: key, exact: true, selected: true }).waitFor();
          versions += 1;
        }
        await tab('Default').click();
      }
      assert.equal(await page.getByRole('button', { name: 'No changes' }).count(), 1, file);
      await page.getByRole('button', { name: '← Pages' }).click();
    }
    assert.ok(versions > 40, `${versions}`);
    assert.deepEqual([faults, team.others], [[], []]);
  });

  test('a headline for returning visitors: a version, a rule and a text, saved as the three lines that differ', async () => {
    const before = text('routes/about.json');
    await open('/about');
    const [first] = Object.keys(JSON.parse(before).layout.zones);
    await zone(first!);
    await page.getByLabel('New version, a copy of default').fill('returning');
    await page.getByRole('button', { name: 'Add version' }).click();
    await page.getByRole('tab', { name: 'returning', selected: true }).waitFor();
    await page.getByRole('button', { name: 'Add a rule' }).click();
    await page.getByLabel('Visitors').selectOption({ label: 'Came back for another visit' });
    await save('A headline for returning visitors');
    await page.getByText('Saved.').waitFor();
    const saved = JSON.parse(text('routes/about.json')).layout.zones[first!];
    assert.deepEqual(Object.keys(saved.variants), ['returning']);
    assert.deepEqual(saved.rules, [{ audience: 'returning', variant: 'returning' }]);
    lint();
    assert.deepEqual(faults, []);
  });

  test('a rule is shown with its audience, and moved, removed and replaced by a condition', async () => {
    const rules = () => JSON.parse(text('routes/index.json')).layout.zones.hero.rules;
    const [first, second, third] = rules();
    await open('/');
    await zone('hero');
    const shown = () => page.getByRole('region', { name: 'Rules' }).getByLabel('Visitors').evaluateAll((selects) => selects.map((select) => (select as HTMLSelectElement).value));
    assert.deepEqual(await shown(), [first.audience, second.audience]);
    await page.getByRole('button', { name: 'Move rule 2 up' }).click();
    await page.getByRole('button', { name: 'Remove rule 2' }).click();
    await page.getByLabel('Visitors').selectOption({ label: 'by a condition' });
    await page.getByRole('button', { name: 'Add a test' }).click();
    await page.getByRole('combobox', { name: /^What/ }).selectOption('country');
    await page.getByLabel('Value', { exact: true }).fill('NO');
    await page.getByText('If country is NO.').waitFor();
    await page.getByRole('button', { name: 'Add a test' }).click();
    await page.getByRole('combobox', { name: /^What/ }).last().selectOption('events.');
    await page.getByLabel('Name of the event').fill('Order Placed');
    await page.getByRole('textbox', { name: /^Within/ }).fill('30d');
    await save('Rules');
    await page.getByText('Saved.').waitFor();
    const when = { country: 'NO', 'events.Order Placed': { $count: { $gte: 1, within: '30d' } } };
    assert.deepEqual(rules(), [{ when, variant: second.variant }, third]);
    lint();
  });

  test('a text in a field changes its line of the file and no other, and undo takes it back', async () => {
    const before = text('routes/about.json');
    await open('/about');
    await write('[data-zone] h1, [data-zone] h2', 'Title', 'We carry it ourselves');
    await preview().getByText('We carry it ourselves').first().waitFor();
    await page.getByRole('button', { name: /^Changes/ }).click();
    const lines = await page.locator('.px-diff .px-plus, .px-diff .px-minus').allTextContents();
    assert.equal(lines.length, 2, lines.join(''));
    await page.getByRole('button', { name: 'Back', exact: true }).click();
    await save('Another title');
    await page.getByText('Saved.').waitFor();
    const after = text('routes/about.json').split('\n');
    assert.deepEqual(before.split('\n').filter((line, at) => line !== after[at]).length, 1);
    await open('/about');
    await write('[data-zone] h1, [data-zone] h2', 'Title', 'Something else');
    await preview().getByText('Something else').first().waitFor();
    await page.locator('button:enabled', { hasText: 'Undo' }).click(); // it is enabled some time after the last key
    await page.getByRole('button', { name: 'No changes' }).waitFor();
  });

  test('a locked zone shows its versions, and has nothing that changes them', async () => {
    const [first] = Object.keys(JSON.parse(text('routes/about.json')).layout.zones);
    await page.goto(`${team.url}/?locked=${first}`);
    await open('/about');
    await zone(first!);
    await tab('Default').waitFor();
    assert.equal(await page.getByRole('button', { name: 'Add version' }).count(), 0);
  });

  test('who may only look sees the pages, and nothing that changes them', async () => {
    team.roles = ['view'];
    await page.reload();
    await open('/about');
    assert.equal(await page.getByRole('button', { name: 'Add version' }).count(), 0);
    await page.getByRole('button', { name: '← Pages' }).click();
    assert.equal(await page.getByRole('button', { name: 'New page' }).count(), 0);
  });

  test('a mistake is listed while a person edits, with the words of the program', async () => {
    await open('/about');
    const [first] = Object.keys(JSON.parse(text('routes/about.json')).layout.zones);
    await zone(first!);
    await page.getByLabel('New version, a copy of default').fill('other');
    await page.getByRole('button', { name: 'Add version' }).click();
    await page.getByRole('button', { name: 'Add a rule' }).click();
    await page.getByLabel('Visitors').selectOption({ label: 'by a condition' });
    await page.getByText('As JSON').click();
    await page.getByRole('textbox', { name: /^Condition/ }).fill('{ "countri": "NO" }');
    const mistakes = page.getByRole('region', { name: 'Mistakes' });
    await mistakes.getByText(/countri/).first().waitFor();
    await page.getByRole('textbox', { name: /^Condition/ }).fill('{ "country": "NO" }');
    await mistakes.waitFor({ state: 'detached' });
  });

  test('a change of another person is merged, and one of the same text is shown before it is saved', async () => {
    const file = 'routes/about.json';
    await open('/about');
    await write('[data-zone] h1, [data-zone] h2', 'Title', 'Mine');
    await preview().getByText('Mine').first().waitFor();
    const theirs = JSON.parse(text(file));
    theirs.layout.root.props.description = 'Theirs';
    writeFileSync(path.join(team.directory, file), `${JSON.stringify(theirs, null, 2)}\n`);
    await save('Mine');
    await page.getByText('Their changes are merged with yours.').waitFor();
    await page.getByLabel('What did you change?').fill('Mine');
    await page.getByRole('button', { name: 'Save', exact: true }).click();
    await page.getByText('Saved.').waitFor();
    assert.ok(text(file).includes('"Theirs"') && text(file).includes('"Mine"'), text(file));
    await open('/about');
    await write('[data-zone] h1, [data-zone] h2', 'Title', 'Mine again');
    await preview().getByText('Mine again').first().waitFor();
    writeFileSync(path.join(team.directory, file), text(file).replace('"Mine"', '"Theirs too"'));
    await save('Mine again');
    const conflict = page.getByRole('alert');
    await conflict.getByText('Theirs too').waitFor();
    assert.ok(await conflict.getByText('Mine again').isVisible());
    assert.ok(text(file).includes('"Theirs too"'));
  });

  test('a new page, a copy and a removed page with its redirect are in the site after a save', async () => {
    await page.getByLabel('Path of a new page').fill('/summer');
    await page.getByRole('button', { name: 'New page' }).click();
    await page.getByRole('button', { name: '← Pages' }).click();
    await page.getByRole('button', { name: 'Path of a copy of /about' }).click();
    await page.getByLabel('Path of a copy of /about').fill('/about-us');
    await page.getByRole('button', { name: 'Copy', exact: true }).click();
    await page.getByRole('button', { name: '← Pages' }).click();
    await page.getByRole('button', { name: 'Remove /rental' }).click();
    await page.getByLabel('Redirect to').fill('/about-us');
    await page.getByRole('button', { name: 'Remove and redirect' }).click();
    await save('Pages');
    await page.getByText('Saved.').waitFor();
    assert.equal(JSON.parse(text('routes/summer.json')).path, '/summer');
    assert.equal(JSON.parse(text('routes/about-us.json')).path, '/about-us');
    assert.equal(JSON.parse(text('routes/rental.json')).redirect.to, '/about-us');
    lint();
  });

  test('the history has each save, and the way back is a change like any other', async () => {
    await page.getByRole('button', { name: 'History' }).click();
    await page.getByText('This composer has no history.').waitFor();
    await begin({ hasGit: true });
    const first = text('routes/about.json');
    await open('/about');
    await write('[data-zone] h1, [data-zone] h2', 'Title', 'A night later');
    await preview().getByText('A night later').first().waitFor();
    await save('Another title');
    await page.getByText('Saved.').waitFor();
    await page.getByRole('button', { name: 'History' }).click();
    const saves = page.getByRole('list', { name: 'Saves' }).getByRole('listitem');
    await saves.nth(1).waitFor();
    assert.match((await saves.allTextContents()).join(' | '), /^Another title Ada.* \| The first site Ada/);
    await page.getByRole('button', { name: 'Go back to: The first site' }).click();
    await page.getByText('These changes take the site back.').waitFor();
    assert.ok(text('routes/about.json').includes('A night later'));
    await page.getByLabel('What did you change?').fill('Back');
    await page.getByRole('button', { name: 'Save', exact: true }).click();
    await page.getByText('Saved.').waitFor();
    assert.equal(text('routes/about.json'), first);
  });

  test('the page as an invented visitor sees it, with the reason, and without a change', async () => {
    await begin({ hasServer: true });
    await open('/');
    const seen = page.getByRole('region', { name: 'See as' });
    await seen.getByLabel('Language').fill('de-AT');
    await seen.getByRole('button', { name: 'Show the page to this visitor' }).click();
    const decisions = seen.getByRole('list', { name: 'Decisions' });
    await decisions.getByText('Rule 1 holds').waitFor();
    assert.match((await decisions.textContent())!, /hero: deutsch\. Rule 1 holds/);
    await preview().getByText('Gemacht für den dritten Regentag').first().waitFor();
    await seen.getByLabel('Language').fill('sv-SE');
    await seen.getByLabel('Came from the campaign source').fill('sunday-letter');
    await seen.getByRole('button', { name: 'Show the page to this visitor' }).click();
    await decisions.getByText('hero: Default. The visitor takes part in the experiment “slow-front”').waitFor();
    assert.match((await decisions.textContent())!, /promo: (?!Default)/);
    await preview().getByText('Made for the third day of rain').first().waitFor();
    assert.equal(await page.getByRole('button', { name: 'No changes' }).count(), 1);
    await zone('hero');
    await page.getByLabel('Visitors').first().getByRole('option', { name: 'Came back for another visit (0 visitors now)' }).waitFor({ state: 'attached' });
    assert.deepEqual(team.others, []);
  });

  test('axe finds nothing in the parts of the composer', async () => {
    await checkAxe('pages');
    await page.getByRole('button', { name: 'Remove /rental' }).click();
    await checkAxe('a page that is removed');
    await page.getByRole('button', { name: 'Cancel' }).click();
    await open('/');
    await zone('hero');
    await checkAxe('a page');
    await write('[data-zone] h1, [data-zone] h2', 'Title', 'Read by everybody');
    await page.getByRole('button', { name: /^Changes/ }).click();
    await checkAxe('changes');
    await page.setViewportSize({ width: 400, height: 800 });
    await page.getByRole('button', { name: 'Back', exact: true }).click();
    await page.getByRole('button', { name: '← Pages' }).click();
    await checkAxe('pages on a phone');
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 400);
  });

  test('changes survive a closed tab, and can be discarded', async () => {
    await open('/about');
    await write('[data-zone] h1, [data-zone] h2', 'Title', 'Kept');
    await preview().getByText('Kept').first().waitFor();
    await page.getByRole('button', { name: 'Changes (1) …' }).waitFor();
    await page.close();
    page = await context.newPage();
    await page.goto(team.url);
    await page.getByRole('button', { name: 'Changes (1) …' }).click();
    await page.getByRole('button', { name: 'Discard these changes' }).click();
    await page.getByText('Nothing is changed.').waitFor();
  });
});
