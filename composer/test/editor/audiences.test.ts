import assert from 'node:assert/strict';
import path from 'node:path';
import { after, before, beforeEach, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { Page } from 'playwright-core';
import { startSession, stepsOf } from './steps.js';
import { type Team, type TeamOptions, bundle } from './team.js';

/** The project of the tests, with the packed package. */
const PROJECT = path.join(path.dirname(fileURLToPath(import.meta.url)), '../..');

describe('audiences', () => {
  let team: Team;
  let page: Page;
  let built: Awaited<ReturnType<typeof bundle>>;
  const faults: string[] = [];
  const { text, open, zone, save, lint, checkAxe, unreached } = stepsOf(() => ({ team, page }));

  before(async () => {
    built = await bundle(PROJECT);
  });
  async function begin(options: TeamOptions = {}): Promise<void> {
    await team?.stop();
    ({ team, page } = await startSession(built, faults, options));
  }
  beforeEach(() => begin());
  after(async () => team?.stop());

  const view = () => page.getByRole('main');
  const audience = async (name: string) => {
    await page.getByRole('button', { name: 'Audiences' }).click();
    await view().getByRole('button', { name: new RegExp(`^${name} `) }).click();
  };
  const changedLines = async () => {
    const lines = await page.locator('.px-diff .px-plus, .px-diff .px-minus').allTextContents();
    return lines.map((line) => line.replace(/^(.) +/, '$1 ').trim());
  };

  test('an audience is added by form and used by a rule, and only its lines are new', async () => {
    await page.getByRole('button', { name: 'Audiences' }).click();
    await page.getByLabel('Name of a new audience').fill('Lives in Åland');
    await page.getByRole('button', { name: 'New audience' }).click();
    await page.getByRole('button', { name: 'Add a test' }).click();
    await page.getByRole('combobox', { name: /^What/ }).selectOption('country');
    await page.getByLabel('Value', { exact: true }).fill('AX');
    await page.getByText('If country is AX.').waitFor();
    await page.getByRole('button', { name: /^Changes/ }).click();
    await page.getByRole('region', { name: 'What changes for visitors' }).getByText('audience lives-in-aland: new').waitFor();
    assert.deepEqual(await changedLines(), ['+ },', '+ "lives-in-aland": {', '+ "name": "Lives in Åland",', '+ "when": { "country": "AX" }']);
    await page.getByRole('button', { name: 'Back', exact: true }).click();
    await page.getByRole('button', { name: 'Back', exact: true }).click();
    await open('/about');
    const [name] = Object.keys(JSON.parse(text('routes/about.json')).layout.zones);
    await zone(name!);
    await page.getByLabel('New version, a copy of default').fill('islands');
    await page.getByRole('button', { name: 'Add version' }).click();
    await page.getByRole('button', { name: 'Add a rule' }).click();
    await page.getByLabel('Visitors').selectOption({ label: 'Lives in Åland' });
    await save('The islands');
    await page.getByText('Saved.').waitFor();
    assert.deepEqual(JSON.parse(text('routes/about.json')).layout.zones[name!].rules, [{ audience: 'lives-in-aland', variant: 'islands' }]);
    assert.equal(lint(), '');
    await audience('Lives in Åland');
    await view().getByText(`Used by ${name} on /about.`).waitFor();
    await page.getByRole('button', { name: 'Remove this audience' }).click();
    await page.getByText(`The audience cannot be removed, because ${name} on /about uses it.`).waitFor();
    assert.deepEqual([faults, team.others], [[], []]);
  });

  test('a name and a condition are changed where a person edits, and an unused audience is removed', async () => {
    await audience('Lives one border away');
    await page.getByLabel('Name', { exact: true }).fill('A neighbour');
    await page.getByRole('button', { name: /^Changes/ }).click();
    assert.deepEqual(await changedLines(), ['- "name": "Lives one border away",', '+ "name": "A neighbour",']);
    await page.getByRole('button', { name: 'Discard these changes' }).click();
    await page.getByRole('button', { name: 'Back', exact: true }).click();
    await view().getByText(/^Used by .*the audience “A member whom we have not seen for two months”/).waitFor();
    await page.getByLabel('Name of a new audience').fill('Returning!');
    await page.getByRole('button', { name: 'New audience' }).click();
    await view().getByText('returning-2').waitFor();
    await page.getByText('As JSON').click();
    const mistakes = page.getByRole('region', { name: 'Mistakes' });
    await page.getByRole('textbox', { name: /^Condition/ }).fill('{ "countri": "NO" }');
    await mistakes.getByText(/countri/).first().waitFor();
    await page.getByRole('textbox', { name: /^Condition/ }).fill('{ "country": "NO" }');
    await mistakes.waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Remove this audience' }).click();
    await page.getByRole('button', { name: 'No changes' }).waitFor();
  });

  test('a campaign is scheduled and ended by date and time', async () => {
    const saved = () => JSON.parse(text('routes/about.json')).layout.zones;
    const [name] = Object.keys(saved());
    await open('/about');
    await zone(name!);
    await page.getByLabel('New version, a copy of default').fill('sale');
    await page.getByRole('button', { name: 'Add version' }).click();
    await page.getByRole('button', { name: 'Add a rule' }).click();
    await page.getByLabel('Visitors').selectOption({ label: 'everyone, in a time span' });
    const rules = page.getByRole('region', { name: 'Rules' });
    await rules.getByLabel('Begin').focus();
    await page.keyboard.type('120120300900AM'); // each part of the field takes its digits, and the next part follows
    assert.equal(await rules.getByLabel('Begin').inputValue(), '2030-12-01T09:00');
    await rules.getByLabel('End').fill('2030-12-24T18:30');
    await checkAxe('a rule in a time span');
    await save('A sale');
    await page.getByText('Saved.').waitFor();
    assert.deepEqual(saved()[name!].rules, [{ when: { 'now.at': { $gte: '2030-12-01T03:30:00Z', $lt: '2030-12-24T13:00:00Z' } }, variant: 'sale' }]);
    assert.equal(lint(), '');
    await open('/about');
    await zone(name!);
    assert.equal(await rules.getByLabel('Begin').inputValue(), '2030-12-01T09:00');
    await rules.getByLabel('Begin').fill('');
    await rules.getByLabel('End').fill('2030-12-20T00:00');
    await page.getByLabel('Visitors').selectOption({ label: 'by a condition' });
    await page.getByText('If time is before 2030-12-19T18:30:00Z.').waitFor();
    await page.getByRole('button', { name: 'Add a test' }).click();
    await page.getByRole('combobox', { name: /^What/ }).last().selectOption('visitor.isReturning');
    await page.getByText('If time is before 2030-12-19T18:30:00Z, and the visitor is returning.').waitFor();
    await save('The sale ends earlier, and is for returning visitors');
    await page.getByText('Saved.').waitFor();
    assert.deepEqual(saved()[name!].rules, [{ when: { 'now.at': { $lt: '2030-12-19T18:30:00Z' }, 'visitor.isReturning': true }, variant: 'sale' }]);
    assert.equal(lint(), '');
    await open('/about');
    await zone(name!);
    await rules.getByLabel('End').fill('2020-01-01T00:00');
    await save('The sale is over');
    await page.getByText('Saved.').waitFor();
    assert.match(lint(), /^warning: /);
    await open('/about');
    await zone(name!);
    await page.getByRole('tab', { name: 'sale', exact: true }).click();
    await page.getByRole('button', { name: 'Remove “sale”' }).click();
    await save('No sale');
    await page.getByText('Saved.').waitFor();
    assert.deepEqual([saved()[name!].rules, saved()[name!].variants, lint()], [[], {}, '']);
  });

  test('sizes are those of the server, and who may only look cannot change anything', async () => {
    await begin({ hasServer: true });
    team.roles = ['view'];
    await page.reload();
    await audience('Came back for another visit');
    await view().getByText('0 visitors now').first().waitFor();
    assert.equal(await view().locator(':is(input, textarea):not([readonly]):enabled, select:enabled').count(), 0);
    const buttons = await view().locator('button:not([aria-expanded])').allTextContents();
    assert.deepEqual(buttons, ['Back']);
  });

  test('every control is reached with the keyboard, and axe finds nothing', async () => {
    await audience('Opened the tents three times');
    await checkAxe('an audience');
    await page.getByText('As JSON').click();
    assert.deepEqual(await unreached(), []);
    await page.setViewportSize({ width: 400, height: 800 });
    await checkAxe('an audience on a phone');
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 400);
  });
});
