// docs/composing.md, word by word. With PICTURES=DIRECTORY its pictures are written there.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, beforeEach, describe, test } from 'node:test';
import { type Built, type Desk, build, startDesk } from './desk.js';

const DOCUMENT = path.join(process.env.PARALLAX_COMPOSER!, '../docs/composing.md');
const PICTURES = process.env.PICTURES;
/** Bold texts of the document that are no controls. */
const TERMS = ['zones', 'versions'];

describe('the document for content people', () => {
  let built: Built;
  let desk: Desk;
  /** The names of the controls that were used or seen. */
  const used = new Set(TERMS);
  before(async () => {
    built = await build();
    desk = await startDesk(built, { hasGit: true, previewSecret: 'a-secret-of-32-characters-or-more', publish: { publish: async () => ({ status: 'Published.' }) } });
  });
  beforeEach(async () => {
    await desk.page.goto(desk.team.url);
    await desk.page.getByRole('heading', { name: 'Pages' }).waitFor();
  });
  after(async () => desk.team.stop());

  const by = (name: string) => {
    used.add(name);
    return { name, exact: true } as const;
  };
  const button = (name: string) => desk.page.getByRole('button', by(name)).first();
  const field = (name: string) => {
    used.add(name);
    return desk.page.getByLabel(new RegExp(`^${name.replace(/[?.()]/g, '\\$&')}`)).first();
  };
  const changes = async () => {
    used.add('Changes');
    await desk.page.getByRole('button', { name: /^Changes \(/ }).click();
  };
  const back = () => button('← Pages').click();
  const saveAs = async (message: string) => {
    await changes();
    await field('What did you change?').fill(message);
    await button('Save').click();
    await desk.page.getByText('Saved.').waitFor();
  };
  /** Writes a picture of the page, from the top of a part of it. */
  async function picture(name: string, part?: ReturnType<Desk['page']['locator']>): Promise<void> {
    await desk.page.getByText('Comparing with the saved site').waitFor({ state: 'detached' });
    if (!PICTURES) return;
    await desk.page.setViewportSize({ width: 1280, height: 800 });
    await part?.evaluate((element) => element.scrollIntoView({ block: 'start' }));
    await desk.page.screenshot({ path: path.join(PICTURES, `composer-${name}.png`) });
    await desk.page.setViewportSize({ width: 1500, height: 900 });
  }

  test('the pages', async () => {
    await picture('pages');
    await field('Search').fill('/about');
    await desk.open('/about');
    await desk.preview().locator('[data-zone] h1, [data-zone] h2').first().click();
    for (const name of ['Insert …', 'Move …', 'Undo']) await button(name).waitFor();
    await back();
    await field('Search').fill('');
  });

  test('change a headline for returning visitors', async () => {
    await desk.open('/about');
    await desk.zone('main');
    await field('New version, a copy of default').fill('back');
    await button('Add version').click();
    await button('Add a rule').click();
    await field('Visitors').selectOption({ label: 'Came back for another visit' });
    await field('see').selectOption('back');
    await desk.write('[data-zone] h1, [data-zone] h2', 'Title', 'Good to see you again');
    await desk.preview().getByText('Good to see you again').first().waitFor();
    used.add('by a condition');
    await field('Visitors').locator('option', { hasText: 'by a condition' }).waitFor({ state: 'attached' });
    await picture('versions', desk.page.getByRole('region', { name: 'Zones' }));
    await desk.tab('Default').click();
    assert.equal(await desk.preview().getByText('Good to see you again').count(), 0);
    await back();
    await button('Audiences').waitFor();
    await desk.open('/about');
    await changes();
    await button('Discard these changes').waitFor();
    await button('Save and publish').waitFor();
    await button('Back').click();
    await desk.page.getByRole('heading', { name: '/about' }).waitFor();
    await changes();
    await field('What did you change?').fill('A headline for returning visitors');
    await picture('changes');
    await button('Save').click();
    await desk.page.getByText('Saved.').waitFor();
    await button('Preview link …').waitFor();
    assert.match(desk.lint(), /, 0 errors, 0 warnings$/m);
  });

  test('run a test, raise it to 50 %, and end it', async () => {
    await desk.open('/rental');
    await desk.zone('top');
    await field('New version, a copy of default').fill('short');
    await button('Add version').click();
    await desk.write('[data-zone] h1, [data-zone] h2', 'Title', 'Rent a tent');
    await back();
    await button('Experiments').click();
    await field('Name of a new experiment').fill('Headline of the rental');
    await desk.page.getByRole('combobox', { name: 'Page', exact: true }).selectOption('/rental');
    await desk.page.getByRole('combobox', { name: 'Zone', exact: true }).selectOption('top');
    await button('New experiment').click();
    await field('Goal').fill('purchase');
    await field('Share of new visitors').fill('50');
    for (const name of ['Begin', 'End']) await field(name).waitFor();
    await picture('experiment', desk.page.getByRole('list', { name: 'Experiments', exact: true }).getByRole('button', { name: /^headline-of-the-rental/ }));
    await button('Back').click();
    await saveAs('A test of the headline');
    assert.deepEqual(desk.layout('routes/rental.json').zones.top.rules[0].experiment.coverage, 0.5);
    await button('Experiments').click();
    await desk.page.getByRole('button', { name: /^headline-of-the-rental/ }).click();
    await button('End now').click();
    await field('Winner').selectOption('short');
    await button('Back').click();
    await saveAs('The short headline has won');
    assert.equal(desk.layout('routes/rental.json').zones.top.rules[0].experiment.winner, 'short');
  });

  test('schedule a campaign', async () => {
    await desk.open('/about');
    await desk.zone('main');
    await field('New version, a copy of default').fill('sale');
    await button('Add version').click();
    await button('Add a rule').click();
    used.add('everyone, in a time span');
    const rules = desk.page.getByRole('region', { name: 'Rules' });
    await rules.getByLabel('Visitors').last().selectOption({ label: 'everyone, in a time span' });
    await rules.getByLabel('see').last().selectOption('sale');
    await rules.getByLabel(/^Begin/).fill('2031-06-01T08:00');
    await rules.getByLabel(/^End/).fill('2031-06-15T20:00');
    await picture('campaign', desk.page.getByRole('region', { name: 'Zones' }));
    await field('At this time').fill('2031-06-10T12:00');
    await button('Show the page to this visitor').click();
    await desk.page.getByRole('list', { name: 'Decisions' }).getByText('main: sale. Rule 2 holds').waitFor();
    await back();
    await saveAs('A campaign in June');
    const when = desk.layout('routes/about.json').zones.main.rules[1].when['now.at'];
    assert.ok(when.$gte.startsWith('2031-') && when.$lt.startsWith('2031-06-1'), JSON.stringify(when));
  });

  test('see a page as a Swede on a phone, and why', async () => {
    await desk.open('/');
    await field('Visits').selectOption('for the first time');
    await field('Language').fill('sv-SE');
    await field('Country').fill('SE');
    await field('Device').selectOption('phone');
    for (const name of ['Came from the campaign source', 'Did before', 'Traits']) await field(name).waitFor();
    await button('Show the page to this visitor').click();
    await desk.page.getByRole('list', { name: 'Decisions' }).getByText('hero: Default.').waitFor();
    await picture('see-as', desk.page.getByRole('region', { name: 'See as' }));
    await back();
  });

  test('somebody else has changed the same page, and the way back', async () => {
    await desk.open('/about');
    await desk.write('[data-zone] h1, [data-zone] h2', 'Title', 'Our own words');
    const file = path.join(desk.team.directory, 'routes/about.json');
    const before = readFileSync(file, 'utf8');
    const title = JSON.parse(before).layout.zones.main.default[0].props.title;
    writeFileSync(file, before.replace(JSON.stringify(title), '"Their words"'));
    await back();
    await changes();
    await field('What did you change?').fill('Our words');
    await button('Save').click();
    await desk.page.getByText('Someone else has saved meanwhile').waitFor();
    await desk.page.getByText('Their words').first().waitFor();
    await picture('merge');
    await field('What did you change?').fill('Our words');
    await button('Save').click();
    await desk.page.getByText('Saved.').waitFor();
    await button('History').click();
    await desk.page.getByRole('button', { name: 'Go back to: A campaign in June' }).waitFor();
    await picture('history');
    used.add('Go back to this …');
    await desk.page.getByRole('button', { name: 'Go back to: A headline for returning visitors' }).click();
    await desk.page.getByText('These changes take the site back.').waitFor();
    await field('What did you change?').fill('Back to the state before the test');
    await button('Save').click();
    await desk.page.getByText('Saved.').waitFor();
    assert.ok(!desk.layout('routes/rental.json').zones.top.rules);
    assert.deepEqual([desk.faults, desk.team.others], [[], []]);
  });

  test('every control that the document names was used', () => {
    const text = readFileSync(DOCUMENT, 'utf8').replace(/\s+/g, ' ');
    const named = new Set([...text.matchAll(/\*\*(.+?)\*\*/g)].map(([, name]) => name!));
    assert.deepEqual([...named].filter((name) => !used.has(name)), []);
  });
});
