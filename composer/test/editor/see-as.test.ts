import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { type Built, type Desk, build, startDesk } from './desk.js';
import type { TeamOptions } from './team.js';

describe('the page as a visitor sees it', () => {
  let built: Built;
  let desk: Desk;
  before(async () => {
    built = await build();
  });
  after(async () => desk?.team.stop());

  async function begin(options: TeamOptions = {}, query = ''): Promise<void> {
    await desk?.team.stop();
    desk = await startDesk(built, options, query);
    await desk.open('/');
  }
  const seen = () => desk.page.getByRole('region', { name: 'See as' });
  const show = () => seen().getByRole('button', { name: 'Show the page to this visitor' }).click();
  const decided = (text: string) => seen().getByRole('list', { name: 'Decisions' }).getByText(text).waitFor();

  test('an invented visitor has a past, and sees the changes that are not saved', async () => {
    await begin();
    await seen().getByLabel('Visits').selectOption('again after a day');
    await show();
    await decided('hero: welcome-back.');
    await seen().getByText('with your changes').waitFor();
    await desk.preview().getByText('Back from the hills?').first().waitFor();
    await seen().getByLabel('Visits').selectOption('for the first time');
    await show();
    await decided('hero: Default.');
    await seen().getByLabel('Did before').fill('Product Added');
    await show();
    await decided('hero: welcome-back.');
    await seen().getByLabel('Country').fill('XX');
    await show();
    await seen().getByRole('alert').getByText('/visitor/country').waitFor();
  });

  test('traits and the time of an invented visitor decide', async () => {
    const prepare = (directory: string) => {
      const file = path.join(directory, 'audiences.json');
      writeFileSync(file, readFileSync(file, 'utf8').replace('"visitor.isReturning": true', '"traits.plan": "member", "now.date": { "$gte": "2031-01-01" }'));
    };
    await begin({ prepare });
    await seen().getByLabel('Traits').fill('plan=member');
    await show();
    await decided('hero: Default.');
    await seen().getByLabel('At this time').fill('2031-05-01T12:00');
    await show();
    await decided('hero: welcome-back.');
    assert.deepEqual(desk.faults, []);
  });

  test('a version that is not saved is decided too', async () => {
    await begin();
    await desk.zone('hero');
    await desk.tab('Default').click();
    await desk.write('[data-zone] h1, [data-zone] h2', 'Title', 'Not saved yet');
    await seen().getByLabel('Language').fill('sv-SE');
    await show();
    await decided('hero: Default.');
    await desk.preview().getByText('Not saved yet').first().waitFor();
  });

  test('without the module, the server of the site decides for an invented visitor with a past', async () => {
    await begin({ hasServer: true }, '?plain');
    await seen().getByLabel('Visits').selectOption('again after a week');
    await show();
    await decided('hero: welcome-back.');
    await seen().getByText('that of the published site').waitFor();
    assert.equal(await seen().getByText('A real visitor').count(), 0, 'only with the role visitors');
    assert.deepEqual(desk.team.others, []);
  });
});
