// Every task with the keyboard alone, and what axe finds.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { afterEach, before, describe, test } from 'node:test';
import { type Built, type Desk, build, startDesk } from './desk.js';

/** Presses of Tab until an element must have the focus. */
const TABS_MAX = 250;

/** A fault of the editor library: the rule of axe, the elements, and why it is not ours. */
interface KnownFault {
  rule: string;
  selector: string;
  why: string;
}
const PUCK_FAULTS: KnownFault[] = [
  { rule: 'button-name', selector: '[class*="_ArrayField-addButton_"]', why: 'Its lists have a button with a plus sign, and no name for it.' },
  { rule: 'nested-interactive', selector: '[class*="_ArrayFieldItem-summary_"]', why: 'Its lists have the buttons of an entry within the handle that drags the entry.' },
  { rule: 'frame-title', selector: 'iframe#preview-frame', why: 'It makes the frame of the preview, and gives it no title.' },
];

describe('the keyboard', () => {
  let built: Built;
  let desk: Desk;
  before(async () => {
    built = await build();
  });
  afterEach(() => desk.team.stop());

  /** Returns the name of the element with the focus, as far as these tests need it. */
  const focused = () =>
    desk.page.evaluate(() => {
      const element = document.activeElement as HTMLInputElement | null;
      const label = element?.getAttribute('aria-label') ?? element?.labels?.[0]?.querySelector('span')?.textContent ?? element?.labels?.[0]?.textContent ?? element?.textContent ?? '';
      return label.trim();
    });
  const press = async (...keys: string[]) => {
    for (const key of keys) await desk.page.keyboard.press(key);
  };
  /** Goes on with Tab, or back with Shift and Tab, to an element with this name. */
  async function tabTo(name: string | RegExp, key: 'Tab' | 'Shift+Tab' = 'Tab'): Promise<void> {
    const met: string[] = [];
    for (let count = 0; count < TABS_MAX; count += 1) {
      await press(key);
      const now = await focused();
      met.push(now);
      if (typeof name === 'string' ? now === name : name.test(now)) return;
    }
    assert.fail(`${name} is not among ${[...new Set(met)].join(' | ')}`);
  }
  const blocks = async () => (await desk.page.getByRole('navigation', { name: 'Outline' }).getByRole('list').first().getByRole('button').allTextContents()).map((text) => text.split(' “')[0]);

  const stepCount = async () => Number(await desk.page.locator('[data-steps]').getAttribute('data-steps'));
  /** Waits for a step after so many. The editor library makes one step of changes that follow each other fast. */
  const noted = (before: number) => desk.page.waitForFunction((count) => Number(document.querySelector<HTMLElement>('[data-steps]')!.dataset.steps) > count, before);

  test('open a page, edit it, add a version for an audience, insert, move and remove blocks, undo, see it as a visitor, and save it', async () => {
    desk = await startDesk(built, { hasServer: true });
    const { page } = desk;
    const before = desk.layout('routes/index.json');
    await page.locator('body').focus();
    await tabTo(/^\/ Fjell/);
    await press('Enter');
    await desk.preview().locator('[data-zone]').first().waitFor();
    assert.equal(await focused(), '/', 'the heading of the page');

    await tabTo(/^Story list/);
    await press('Enter');
    assert.equal(await focused(), 'Fields');
    await tabTo('Title');
    await press('End');
    await page.keyboard.type(', and more');
    await desk.preview().getByText('From the magazine, and more').waitFor();

    await tabTo(/^left /);
    await press('Enter');
    await tabTo('New version, a copy of default');
    await page.keyboard.type('letter-readers');
    await press('Enter');
    await page.getByRole('tab', { name: 'letter-readers', selected: true }).waitFor();
    await tabTo('Add a rule');
    await press('Enter');
    await tabTo('Visitors', 'Shift+Tab');
    await page.keyboard.type('Followed');

    await tabTo('Insert …', 'Shift+Tab');
    await press('Enter');
    assert.equal(await focused(), 'Block', 'the menu takes the focus');
    await press('Escape');
    assert.equal(await focused(), 'Insert …', 'Escape gives the focus back');
    await press('Enter');
    await page.keyboard.type('Callout');
    await tabTo('Zone');
    await page.keyboard.type('main');
    await tabTo('Position');
    await press('Home');
    await tabTo('Insert the block');
    await press('Enter');
    assert.equal(await focused(), 'Fields');
    assert.deepEqual(await blocks(), ['Hero', 'Callout', 'Columns', 'Product grid', 'Banner', 'Product strip', 'Story list', 'Newsletter']);

    await tabTo('Move down');
    await press('Enter');
    assert.equal(await focused(), 'Move down');
    assert.deepEqual((await blocks()).slice(0, 6), ['Hero', 'Columns', 'Product grid', 'Banner', 'Callout', 'Product strip']);
    await tabTo('Move …');
    await press('Enter');
    assert.equal(await focused(), 'Zone');
    await page.keyboard.type('promo');
    await tabTo('Move the block');
    await press('Enter');
    assert.equal(await focused(), 'Move …');
    assert.deepEqual((await blocks()).slice(3, 6), ['Banner', 'Callout', 'Product strip'], 'in the container');
    await press('Enter');
    await page.keyboard.type('hero');
    await tabTo('Move the block');
    let steps = await stepCount();
    await press('Enter');
    assert.deepEqual((await blocks()).slice(0, 3), ['Hero', 'Callout', 'Columns'], 'out of the container');
    await noted(steps);

    await tabTo('Remove', 'Shift+Tab');
    steps = await stepCount();
    await press('Enter');
    await page.waitForFunction(() => document.activeElement?.getAttribute('aria-current') === 'true');
    assert.match(await focused(), /^Hero/, 'the focus is on the block that is left in the zone');
    assert.deepEqual((await blocks()).slice(0, 2), ['Hero', 'Columns']);
    await noted(steps);
    await tabTo('Undo', 'Shift+Tab');
    await press('Enter');
    await page.getByRole('navigation', { name: 'Outline' }).getByRole('button', { name: /^Callout/ }).waitFor();
    await tabTo('Redo');
    await press('Enter');
    await page.getByRole('navigation', { name: 'Outline' }).getByRole('button', { name: /^Callout/ }).waitFor({ state: 'detached' });

    await tabTo('Language');
    await page.keyboard.type('de-AT');
    await press('Enter');
    await page.getByRole('list', { name: 'Decisions' }).getByText('Rule 1 holds').waitFor();

    await tabTo(/^Changes/, 'Shift+Tab');
    await press('Enter');
    assert.equal(await focused(), 'Changes', 'the heading of the changes');
    await tabTo('What did you change?');
    await page.keyboard.type('With the keyboard');
    await press('Enter');
    await page.getByText('Saved.').waitFor();
    desk.lint();
    const after = desk.layout('routes/index.json');
    const [columns] = before.zones.main;
    before.zones.main[2].props.title = 'From the magazine, and more';
    const { left } = after.zones.main[0].zones;
    columns.zones.left = { default: columns.zones.left, variants: { 'letter-readers': left.variants['letter-readers'] }, rules: [{ audience: 'newsletter', variant: 'letter-readers' }] };
    assert.deepEqual(after, before);
    assert.equal(left.variants['letter-readers'][0].type, 'ProductGrid');
    assert.deepEqual(desk.faults, []);
  });

  test('a block with versions moves with them, and a page is renamed', async () => {
    desk = await startDesk(built);
    const { page } = desk;
    const before = desk.layout('routes/index.json');
    await tabTo('Rename /about');
    await press('Enter');
    assert.equal(await focused(), 'Another path', 'the dialog takes the focus');
    await press('Escape');
    assert.equal(await focused(), 'Rename /about');
    await press('Enter');
    await page.keyboard.press('Control+A');
    await page.keyboard.type('/rental');
    await press('Enter');
    await page.getByRole('alert').getByText('There is a page with this path.').waitFor();
    await tabTo('Another path', 'Shift+Tab');
    await page.keyboard.press('Control+A');
    await page.keyboard.type('/about-us');
    await press('Enter');
    await page.waitForFunction(() => document.activeElement?.getAttribute('data-path') === '/about-us');
    assert.equal(await page.getByRole('dialog').count(), 0);
    assert.deepEqual(JSON.parse(await desk.draft('routes/about.json')), { path: '/about', redirect: { to: '/about-us', status: 308 } });
    await tabTo(/^\/ Fjell/, 'Shift+Tab');
    await press('Enter');
    await desk.preview().locator('[data-zone]').first().waitFor();
    await tabTo(/^Columns/);
    await press('Enter');
    await tabTo('Move …');
    await press('Enter');
    await page.keyboard.type('hero');
    await tabTo('Move the block');
    await press('Enter');
    await tabTo('← Pages', 'Shift+Tab');
    await press('Enter');
    assert.match(await focused(), /^\/ Fjell/, 'the focus is on the page in the list');
    await desk.save('Moved');
    await page.getByText('Saved.').waitFor();
    desk.lint();
    const [columns] = before.zones.main.splice(0, 1);
    before.zones.hero.default.push(columns);
    assert.deepEqual(desk.layout('routes/index.json'), before);
    assert.equal(JSON.parse(desk.text('routes/about-us.json')).path, '/about-us');
    assert.deepEqual(desk.faults, []);
  });

  test('axe finds nothing in our parts, and in those of the editor library only the known faults', async () => {
    desk = await startDesk(built);
    const { page } = desk;
    const source = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
    const unknown: string[] = [];
    const seen = new Set<KnownFault>();
    const check = async (place: string) => {
      await page.evaluate(source);
      const found = await page.evaluate(async (known) => {
        const { violations } = await (globalThis as any).axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice'], iframes: false, elementRef: true });
        return violations.flatMap(({ id, nodes }: any) => nodes.map(({ element, html }: any) => ({ id, html, at: known.findIndex(({ rule, selector }) => rule === id && element.matches(selector)) })));
      }, PUCK_FAULTS);
      for (const { id, html, at } of found) at < 0 ? unknown.push(`${place}: ${id}: ${html.slice(0, 200)}`) : seen.add(PUCK_FAULTS[at]!);
    };
    await check('pages');
    await page.getByRole('button', { name: 'Rename /rental' }).click();
    await check('a page that is renamed');
    await page.getByRole('button', { name: 'Cancel' }).click();
    await desk.open('/');
    await desk.zone('hero');
    await page.getByRole('navigation', { name: 'Outline' }).getByRole('button', { name: /^Product grid/ }).click();
    await page.getByRole('button', { name: 'Move …' }).click();
    await page.getByRole('button', { name: 'Insert …' }).click();
    await check('a page with a selected block and the menus');
    await desk.write('[data-puck-component="front-letter"]', 'Title', 'Read by everybody');
    await page.getByRole('button', { name: /^Changes/ }).click();
    await check('changes');
    assert.deepEqual(unknown, []);
    assert.deepEqual(PUCK_FAULTS.filter((fault) => !seen.has(fault)), [], 'these faults are gone: remove them from the list');
  });
});
