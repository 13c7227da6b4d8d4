import assert from 'node:assert/strict';
import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, beforeEach, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { Page } from 'playwright-core';
import { type Session, startSession, stepsOf } from './steps.js';
import { type Team, bundle } from './team.js';

/** The project of the tests, with the packed package. */
const PROJECT = path.join(path.dirname(fileURLToPath(import.meta.url)), '../..');
const DAY_MS = 86_400_000;
/** The offset of the time zone of the person. */
const OFFSET_MS = 5.5 * 3_600_000;

/** Returns a full hour so many days from now, as the file has it and as the person enters it. */
function timeIn(days: number): { text: string; local: string } {
  const ms = Math.floor((Date.now() + days * DAY_MS) / 3_600_000) * 3_600_000;
  return { text: new Date(ms).toISOString().replace('.000Z', 'Z'), local: new Date(ms + OFFSET_MS).toISOString().slice(0, 16) };
}

describe('experiments', () => {
  let team: Team;
  let page: Page;
  let built: Awaited<ReturnType<typeof bundle>>;
  /** The directory of the site before the last change. */
  let earlier: string;
  const faults: string[] = [];
  const { text, open, preview, zone, write, save, lint, changesFrom, checkAxe, unreached } = stepsOf(() => ({ team, page }));

  before(async () => {
    built = await bundle(PROJECT);
    earlier = mkdtempSync(path.join(tmpdir(), 'parallax-earlier-'));
  });
  beforeEach(async () => {
    await team?.stop();
    const session: Session = await startSession(built, faults);
    ({ team, page } = session);
  });
  after(async () => {
    await team?.stop();
    rmSync(earlier, { recursive: true, force: true });
  });

  const view = () => page.getByRole('main');
  const experiment = async (key: string) => {
    await page.getByRole('button', { name: 'Experiments' }).click();
    await view().getByRole('list', { name: 'Experiments', exact: true }).getByRole('button', { name: new RegExp(`^${key} `) }).click();
  };
  /** Saves, and returns the lines that differ. The words of the program about the change are shown before. */
  const saveAndCompare = async (message: string): Promise<{ lines: string[]; words: string[] }> => {
    rmSync(earlier, { recursive: true });
    cpSync(team.directory, earlier, { recursive: true });
    await page.getByRole('button', { name: /^Changes/ }).click();
    const shown = page.getByRole('region', { name: 'What changes for visitors' }).getByRole('listitem');
    await shown.first().waitFor();
    const words = await shown.allTextContents();
    const lines = await page.locator('.px-diff .px-plus, .px-diff .px-minus').allTextContents();
    await page.getByLabel('What did you change?').fill(message);
    await page.getByRole('button', { name: 'Save', exact: true }).click();
    await page.getByText('Saved.').waitFor();
    assert.deepEqual(words, changesFrom(earlier));
    assert.equal(lint().trim(), '');
    return { lines: lines.map((line) => line.replace(/^(.) +/, '$1 ').trim()), words };
  };

  test('a test of a headline is started, raised, dated and ended with a winner', async () => {
    const begin = timeIn(-1);
    const end = timeIn(14);
    await open('/about');
    const [name] = Object.keys(JSON.parse(text('routes/about.json')).layout.zones);
    await zone(name!);
    await page.getByLabel('New version, a copy of default').fill('short');
    await page.getByRole('button', { name: 'Add version' }).click();
    await page.getByRole('tab', { name: 'short', selected: true }).waitFor();
    await write('[data-zone] h1, [data-zone] h2', 'Title', 'We make tents');
    await preview().getByText('We make tents').first().waitFor();
    await page.getByRole('button', { name: '← Pages' }).click();
    await page.getByRole('button', { name: 'Experiments' }).click();
    await page.getByLabel('Name of a new experiment').fill('Headline of “About”');
    await page.getByRole('combobox', { name: 'Page', exact: true }).selectOption('/about');
    await page.getByRole('combobox', { name: 'Zone', exact: true }).selectOption(name!);
    await page.getByRole('button', { name: 'New experiment' }).click();
    await page.getByLabel(/^Goal/).fill('purchase');
    const first = await saveAndCompare('A test of the headline');
    assert.match(first.words[0]!, /^headline-of-about: new/);
    const experimentOf = () => JSON.parse(text('routes/about.json')).layout.zones[name!].rules[0].experiment;
    assert.deepEqual(experimentOf(), { key: 'headline-of-about', variants: ['default', 'short'], coverage: 0.01, goal: 'purchase' });

    await experiment('headline-of-about');
    await view().getByText('running', { exact: true }).first().waitFor();
    await page.getByLabel('Share of new visitors').fill('50');
    const raised = await saveAndCompare('Half of the visitors');
    assert.match(raised.words[0]!, /^headline-of-about: ramped \(`coverage` 0\.01 -> 0\.5\)/);
    assert.equal(raised.lines.length, 2, raised.lines.join('\n'));

    await experiment('headline-of-about');
    await page.getByLabel(/^Begin/).fill(begin.local);
    await page.getByLabel(/^End /).fill(end.local);
    const dated = await saveAndCompare('Two weeks');
    assert.match(dated.words[0]!, /^headline-of-about: rescheduled/);
    assert.deepEqual(experimentOf(), { key: 'headline-of-about', variants: ['default', 'short'], coverage: 0.5, from: begin.text, to: end.text, goal: 'purchase' });

    await experiment('headline-of-about');
    await page.getByRole('button', { name: 'End now' }).click();
    await page.getByRole('region', { name: 'Mistakes' }).getByText(/^Warning: /).waitFor();
    await page.getByLabel(/^Winner/).selectOption('short');
    await view().getByText(/^decided: everyone sees short/).waitFor();
    const ended = await saveAndCompare('The short one won');
    assert.match(ended.words[0]!, /^headline-of-about: rescheduled .* decided: all visitors get `short`$/);
    assert.equal(experimentOf().winner, 'short');
    assert.deepEqual([faults, team.others], [[], []]);
  });

  test('a change is one for all zones of an experiment, and touches only its member', async () => {
    await experiment('slow-front');
    await page.getByLabel('Share of Default').fill('40');
    const { lines, words } = await saveAndCompare('Other weights');
    assert.match(words[0]!, /^slow-front: new phase \(`weights` \[0\.5, 0\.5\] -> \[0\.4, 0\.6\]\)/);
    assert.deepEqual(lines.map((line) => line.replace(/0\.4, 0\.6|0\.5, 0\.5/, 'W')), [
      '- "weights": [W],',
      '+ "weights": [W],',
      '- { "experiment": { "key": "slow-front", "variants": ["default", "slow"], "weights": [W], "coverage": 1 } }',
      '+ { "experiment": { "key": "slow-front", "variants": ["default", "slow"], "weights": [W], "coverage": 1 } }',
    ]);
  });

  test('the arms, the ramp, the guardrails and the zones of an experiment are edited', async () => {
    await experiment('tent-advice');
    const [start, more] = [timeIn(-1), timeIn(3)];
    await page.getByRole('checkbox', { name: 'checklist' }).uncheck();
    await page.getByLabel('They are let in').selectOption('in steps');
    await page.getByLabel('Step 1 begins').fill(start.local);
    await page.getByRole('button', { name: 'Add a step' }).click();
    await page.getByLabel('Step 2 begins').fill(more.local);
    await page.getByLabel('Share from step 2').fill('100');
    await page.getByRole('button', { name: 'Add a guardrail' }).click();
    await page.getByLabel('Guardrail 1: must not get worse').fill('Order Refunded');
    await page.getByLabel('Largest loss of guardrail 1').fill('2.5');
    await page.getByLabel('Fewer are better in guardrail 1').check();
    await page.getByRole('button', { name: /^Changes/ }).click();
    await page.getByRole('region', { name: 'What changes for visitors' }).getByText(/^tent-advice: new phase \(`variants`/).waitFor();
    await page.getByRole('button', { name: 'Back', exact: true }).click();
    await save('Tents');
    await page.getByText('Saved.').waitFor();
    const { rules } = JSON.parse(text('routes/tents.json')).layout.zones.advice;
    assert.deepEqual(rules[1].experiment, {
      key: 'tent-advice',
      variants: ['default', 'call-back'],
      coverage: [{ from: start.text, share: 0.8 }, { from: more.text, share: 1 }],
      holdout: 0.05,
      guardrails: [{ goal: 'Order Refunded', margin: 0.025, lowerIsBetter: true }],
    });
    assert.match(lint(), /^warning: .*`checklist`|^$/);
    await experiment('slow-front');
    await page.getByRole('button', { name: 'Take out hero on /' }).click();
    await page.getByRole('button', { name: 'Remove “slow-front” …' }).waitFor();
    await save('One zone');
    await page.getByText('Saved.').waitFor();
    const { zones } = JSON.parse(text('routes/index.json')).layout;
    assert.ok(!JSON.stringify(zones.hero).includes('slow-front'));
    assert.match(text('routes/index.json'), /"key": "slow-front"[^}]*"goal": "Order Placed"/);
    await experiment('slow-front');
    await page.getByRole('button', { name: 'Remove “slow-front” …' }).click();
    await page.getByRole('button', { name: 'Remove the experiment' }).click();
    await save('None');
    await page.getByText('Saved.').waitFor();
    assert.ok(!text('routes/index.json').includes('slow-front'));
  });

  test('mistakes are listed while a person types, and a change can be discarded', async () => {
    await experiment('tent-advice');
    const mistakes = page.getByRole('region', { name: 'Mistakes' });
    await page.getByLabel('Share of Default').fill('50');
    await mistakes.getByText('the sum of the weights is not 1').waitFor();
    await page.getByText('The shares are 116 % together').waitFor();
    await page.getByLabel('Share of Default').fill('34');
    await mistakes.waitFor({ state: 'detached' });
    await page.getByLabel('Share of new visitors').fill('ten');
    await page.getByText('A number from 0 to 100.').waitFor();
    await page.getByLabel('Share of new visitors').fill('100.5');
    await page.getByRole('button', { name: 'No changes' }).waitFor();
    await page.getByLabel('Share of new visitors').fill('10');
    await page.getByRole('button', { name: 'Changes (1) …' }).click();
    await page.getByRole('button', { name: 'Discard these changes' }).click();
    await page.getByText('Nothing is changed.').waitFor();
  });

  test('the form lets as many steps and guardrails in as the program', async () => {
    const file = path.join(team.directory, 'routes/tents.json');
    const [most, guards] = [32, 16];
    const steps = Array.from({ length: most - 1 }, (_, at) => ({ from: timeIn(at - 1).text, share: 0.5 }));
    const guardrails = Array.from({ length: guards - 1 }, (_, at) => ({ goal: `Loss ${at}`, margin: 0.1 }));
    const withLimits = text('routes/tents.json').replace('"coverage": 0.8', `"coverage": ${JSON.stringify(steps)}, "guardrails": ${JSON.stringify(guardrails)}`);
    writeFileSync(file, withLimits);
    assert.equal(lint(), '');
    await page.reload();
    await experiment('tent-advice');
    const added = ['Add a step', 'Add a guardrail'].map((name) => page.getByRole('button', { name }));
    for (const button of added) {
      await button.click();
      assert.equal(await button.isDisabled(), true);
    }
    await save('As many as can be');
    await page.getByText('Saved.').waitFor();
    assert.equal(lint(), '');
    const { coverage, guardrails: all } = JSON.parse(text('routes/tents.json')).layout.zones.advice.rules[1].experiment;
    assert.deepEqual([coverage.length, all.length], [most, guards]);
    writeFileSync(file, text('routes/tents.json').replace('"share":', `"share": 0.4 }, { "from": "${timeIn(-2).text}", "share":`));
    assert.throws(lint, /32/);
  });

  test('who may only look, or may not change a zone of it, sees an experiment and cannot change it', async () => {
    const changeable = () => view().locator(':is(input, textarea):not([readonly]):enabled, select:enabled').count();
    await page.goto(`${team.url}/?locked=promo`);
    await experiment('slow-front');
    await page.getByRole('group', { name: 'Arms' }).waitFor();
    assert.equal(await view().getByRole('group').locator(':is(input, textarea):not([readonly]):enabled, select:enabled, button').count(), 0);
    team.roles = ['view'];
    await page.goto(team.url);
    await experiment('slow-front');
    await page.getByRole('group', { name: 'Arms' }).waitFor();
    assert.equal(await page.getByLabel(/^Goal/).inputValue(), 'Order Placed');
    assert.equal(await changeable(), 0);
    const buttons = await view().getByRole('button').allTextContents();
    assert.deepEqual(buttons.filter((name) => !/^Back$|%$/.test(name)), []);
  });

  test('every control is reached with the keyboard, and axe finds nothing', async () => {
    await experiment('slow-front');
    await page.getByLabel('They are let in').selectOption('in steps');
    await page.getByRole('button', { name: 'Remove “slow-front” …' }).click();
    await checkAxe('an experiment');
    assert.deepEqual(await unreached(), []);
    await page.getByRole('button', { name: /^Changes/ }).click();
    await page.getByRole('region', { name: 'What changes for visitors' }).getByText(/^slow-front: /).waitFor();
    await checkAxe('the changes of an experiment');
    await page.setViewportSize({ width: 400, height: 800 });
    await page.getByRole('button', { name: 'Back', exact: true }).click();
    await page.getByRole('button', { name: 'Back', exact: true }).click();
    await experiment('slow-front');
    await checkAxe('an experiment on a phone');
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 400);
  });
});
