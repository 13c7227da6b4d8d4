// Each mistake leads to its place.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, afterEach, before, describe, test } from 'node:test';
import { type Built, type Desk, build, startDesk } from './desk.js';

/** Replaces texts that a file has once. */
function spoil(directory: string, file: string, ...pairs: [string, string][]): void {
  let text = readFileSync(path.join(directory, file), 'utf8');
  for (const [from, to] of pairs) {
    assert.equal(text.split(from).length, 2, from);
    text = text.replace(from, to);
  }
  writeFileSync(path.join(directory, file), text);
}

describe('the mistakes of a site', () => {
  let built: Built;
  let desk: Desk;
  before(async () => {
    built = await build();
  });
  afterEach(() => desk?.team.stop());
  after(() => desk?.team.stop());
  const mistakes = () => desk.page.getByRole('region', { name: 'Mistakes', exact: true });
  const current = () => desk.page.getByRole('navigation', { name: 'Outline' }).locator('[aria-current="true"]');
  const focused = () => desk.page.evaluate(() => document.activeElement?.getAttribute('aria-label') ?? document.activeElement?.textContent);

  test('a mistake in a version that is not shown selects its block, and the focus is on the fields of the block', async () => {
    desk = await startDesk(built, {
      prepare: (directory) => spoil(directory, 'routes/index.json', ['"props": { "title": "You looked at these", "limit": 4 }', '"props": { "title": "You looked at these", "limit": 4 }, "query": { "id": "nothing" }']),
    });
    const { page } = desk;
    await page.getByRole('button', { name: '1 mistake in /', exact: true }).click();
    await desk.preview().locator('[data-zone]').first().waitFor();
    await mistakes().getByRole('button', { name: /unknown query "nothing"/ }).click();
    assert.match((await current().textContent())!, /Recently viewed “You looked at these”/);
    assert.equal(await focused(), 'Fields');
    await page.getByRole('region', { name: 'Fields' }).getByRole('heading', { name: /Recently viewed/ }).waitFor();
    await desk.zone('hero');
    await page.getByRole('tab', { name: 'welcome-back', selected: true }).waitFor();
    assert.equal(await page.getByRole('button', { name: 'No changes' }).count(), 1);
    assert.deepEqual(desk.faults, []);
  });

  test('a mistake in a rule opens the versions of its zone, and those of the zones around it', async () => {
    desk = await startDesk(built, {
      prepare: (directory) => spoil(directory, 'routes/index.json', ['{ "audience": "comparing-tents", "variant": "tent-desk" }', '{ "audience": "comparing-tends", "variant": "tent-desk" }']),
    });
    const { page } = desk;
    await desk.open('/');
    await mistakes().getByRole('button', { name: /comparing-tends/ }).click();
    await page.getByRole('tablist', { name: 'Versions of next-step' }).waitFor();
    await page.waitForFunction(() => document.activeElement?.getAttribute('role') === 'tab');
    assert.equal(await focused(), 'Default');
    await desk.preview().getByText('Back from the hills?').first().waitFor();
    // A person closes the zone, and the same button opens it again.
    await desk.page.getByRole('region', { name: 'Zones' }).getByRole('button', { name: /^next-step / }).click();
    await mistakes().getByRole('button', { name: /comparing-tends/ }).click();
    await page.getByRole('tablist', { name: 'Versions of next-step' }).waitFor();
    assert.deepEqual(desk.faults, []);
  });

  test('the mistakes of files that are no page have their file and pointer under the list of the pages', async () => {
    desk = await startDesk(built, {
      prepare(directory) {
        spoil(directory, 'audiences.json', ['"name": "Came back for another visit"', '"nam": "Came back for another visit"']);
        spoil(directory, 'routes/moved/sleep.json', ['308', '309']);
      },
    });
    const others = desk.page.getByRole('region', { name: 'Mistakes in other files' });
    await others.waitFor();
    const [audience, redirect] = (await others.getByRole('listitem').allTextContents()).sort();
    assert.match(audience!, /^audiences\.json unknown member `nam` \/returning\/nam/);
    assert.match(redirect!, /^routes\/moved\/sleep\.json .*309.*\/redirect\/status/);
    assert.equal(await desk.page.getByRole('button', { name: /mistake/ }).count(), 0);
    await desk.page.getByText('1 mistake', { exact: true }).waitFor();
  });
});
