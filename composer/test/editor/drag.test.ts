// The mouse: blocks that are dragged and copied, locked zones, and the steps back.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, before, beforeEach, describe, test } from 'node:test';
import type { Locator } from 'playwright-core';
import { type Built, type Desk, build, startDesk } from './desk.js';
import { PARALLAX } from './team.js';

/** Moves of the mouse on the way. The editor library looks for the place under it with each. */
const STEPS = 25;

describe('the mouse in the editor', () => {
  let built: Built;
  let desk: Desk;
  before(async () => {
    built = await build();
  });
  beforeEach(async () => {
    desk = await startDesk(built);
    await desk.page.setViewportSize({ width: 1500, height: 2000 }); // a drag near an edge scrolls
  });
  afterEach(() => desk.team.stop());

  const outline = () => desk.page.getByRole('navigation', { name: 'Outline' });
  const fields = () => desk.page.getByRole('region', { name: 'Fields' });
  const block = (id: string) => desk.preview().locator(`[data-puck-component="${id}"]`);

  /** Drags from the middle of an element to a point of another, as parts of its width and height. */
  async function drag(from: Locator, to: Locator, x: number, y: number): Promise<void> {
    const { mouse } = desk.page;
    // The entry of the drag before goes back to its place.
    await desk.page.locator('[data-dnd-dragging=true], [data-dnd-placeholder]').first().waitFor({ state: 'detached' });
    await to.scrollIntoViewIfNeeded();
    await from.scrollIntoViewIfNeeded();
    const [a, b] = [(await from.boundingBox())!, (await to.boundingBox())!];
    const [startX, startY, endX, endY] = [a.x + a.width / 2, a.y + a.height / 2, b.x + b.width * x, b.y + b.height * y];
    await mouse.move(startX, startY);
    await mouse.down();
    await mouse.move(startX + 8, startY + 8, { steps: 4 });
    await mouse.move(endX - 6, endY - 6, { steps: STEPS });
    // The library opens the place under the mouse some frames after it has come there, one zone after another.
    for (let at = 0; at < 24; at += 1) {
      const offset = (at % 7) - 6;
      await mouse.move(endX + offset, endY + offset);
      await desk.page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    }
    await mouse.up();
  }
  // While an entry is dragged, a hidden one takes its place.
  const drawer = (name: string) => desk.page.getByTestId(`drawer-item:${name}`).and(desk.page.locator(':not([aria-hidden=true])'));
  async function saved(file: string): Promise<any> {
    await desk.save('Dragged');
    await desk.page.getByText('Saved.').waitFor();
    desk.lint();
    const out = mkdtempSync(path.join(tmpdir(), 'parallax-compiled-'));
    execFileSync(PARALLAX, ['compile', desk.team.directory, '-o', path.join(out, 'site.snapshot')], { stdio: 'pipe' });
    rmSync(out, { recursive: true });
    assert.deepEqual(desk.faults, []);
    return desk.layout(file);
  }
  /** Returns the nodes with the new one in place of its ID. */
  const withNew = (nodes: any[], at: number, id: string, type: string) => [...nodes.slice(0, at), { id, type, props: {} }, ...nodes.slice(at)];

  test('a block is dragged into a zone without versions', async () => {
    const before = desk.layout('routes/about.json');
    await desk.open('/about');
    const last = before.zones.main.at(-1).id;
    await drag(drawer('Callout'), block(last), 0.5, 0.9);
    await outline().getByRole('button', { name: /^Callout/ }).waitFor();
    const after = await saved('routes/about.json');
    const at = after.zones.main.findIndex(({ type }: any) => type === 'Callout');
    before.zones.main = withNew(before.zones.main, at, after.zones.main[at].id, 'Callout');
    assert.deepEqual(after, before);
  });

  test('a block is dragged into the version of a zone that is shown', async () => {
    const before = desk.layout('routes/index.json');
    await desk.open('/');
    await desk.zone('hero');
    await desk.tab('deutsch').click();
    await drag(drawer('Callout'), block('hero-de'), 0.5, 0.95);
    await outline().getByRole('button', { name: /^Callout/ }).waitFor();
    const after = await saved('routes/index.json');
    const nodes = after.zones.hero.variants.deutsch;
    const at = nodes.findIndex(({ type }: any) => type === 'Callout');
    before.zones.hero.variants.deutsch = withNew(before.zones.hero.variants.deutsch, at, nodes[at]?.id, 'Callout');
    assert.deepEqual(after, before);
  });

  test('a block is dragged into a zone of a block in a version', async () => {
    const before = desk.layout('routes/index.json');
    await desk.open('/');
    await desk.zone('hero');
    await desk.tab('welcome-back').click();
    await drag(drawer('Callout'), block('next-recent'), 0.5, 0.8);
    await outline().getByRole('button', { name: /^Callout/ }).waitFor();
    const after = await saved('routes/index.json');
    const nodes = after.zones.hero.variants['welcome-back'][0].zones['next-step'].default;
    const at = nodes.findIndex(({ type }: any) => type === 'Callout');
    const zone = before.zones.hero.variants['welcome-back'][0].zones['next-step'];
    zone.default = withNew(zone.default, at, nodes[at]?.id, 'Callout');
    assert.deepEqual(after, before);
  });

  test('a block is dragged from the page into a zone of a container', async () => {
    const before = desk.layout('routes/index.json');
    await desk.open('/');
    await drag(block('front-stories'), block('front-picks'), 0.5, 0.9);
    await desk.page.getByRole('button', { name: 'Changes (1) …' }).waitFor();
    const after = await saved('routes/index.json');
    const [moved] = before.zones.main.splice(2, 1);
    const left = after.zones.main[0].zones.left;
    before.zones.main[0].zones.left.splice(left.findIndex(({ id }: any) => id === moved.id), 0, moved);
    assert.deepEqual(after, before);
  });

  test('a copy has zones without versions, and the block keeps its own', async () => {
    const before = desk.layout('routes/index.json');
    await desk.open('/');
    await outline().getByRole('button', { name: /^Columns/ }).click();
    await fields().getByRole('button', { name: 'Duplicate' }).click();
    await outline().getByRole('button', { name: /^Columns/ }).nth(1).waitFor();
    const after = await saved('routes/index.json');
    assert.deepEqual(after.zones.main[0], before.zones.main[0]);
    const copy = after.zones.main[1];
    assert.ok(Array.isArray(copy.zones.promo), JSON.stringify(copy.zones.promo));
    assert.deepEqual(copy.zones.promo.map(({ props }: any) => props), before.zones.main[0].zones.promo.default.map(({ props }: any) => props));
    assert.notEqual(copy.id, before.zones.main[0].id);
    assert.deepEqual([...after.zones.main.slice(0, 1), ...after.zones.main.slice(2)], before.zones.main);
  });

  test('a locked zone: its fields are read-only, nothing acts on its blocks, and no block can be dropped into it', async () => {
    await desk.page.goto(`${desk.team.url}/?locked=main`);
    await desk.open('/');
    await outline().getByRole('button', { name: /^Product grid/ }).click();
    await fields().getByText('This block is in a locked zone.').waitFor();
    assert.equal(await fields().getByRole('button', { name: /^(Move|Duplicate|Remove)/ }).count(), 0);
    await desk.page.waitForFunction(() => {
      const inputs = [...document.querySelectorAll<HTMLInputElement>('.px-fields input, .px-fields textarea')];
      return inputs.length > 0 && inputs.every((input) => input.readOnly || input.disabled);
    });
    assert.equal(await desk.preview().getByRole('button', { name: /Duplicate|Delete/ }).count(), 0);
    await desk.page.getByRole('button', { name: 'Insert …' }).click();
    const targets = desk.page.getByRole('group', { name: 'Insert' }).getByLabel('Zone');
    const open = await targets.locator('option:enabled').allTextContents();
    assert.ok(open.some((name) => name.startsWith('hero')) && !open.some((name) => /^(main|left|promo)/.test(name)), `${open}`);
    await desk.page.keyboard.press('Escape');
    for (const target of ['front-picks', 'front-letter']) {
      await drag(drawer('Callout'), block(target), 0.5, 0.5);
      assert.equal(await desk.page.getByRole('button', { name: 'No changes' }).count(), 1, target);
    }
    await drag(block('front-letter'), block('hero-default'), 0.5, 0.5);
    assert.equal(await desk.page.getByRole('button', { name: 'No changes' }).count(), 1);
    // The same moves work in a zone that is not locked.
    await drag(drawer('Callout'), block('hero-default'), 0.5, 0.9);
    await desk.page.getByRole('button', { name: 'Changes (1) …' }).waitFor();
    assert.deepEqual(desk.faults, []);
  });

  test('a block around a locked zone can be moved, but neither removed nor copied', async () => {
    await desk.page.goto(`${desk.team.url}/?locked=promo`);
    await desk.open('/');
    await outline().getByRole('button', { name: /^Columns/ }).click();
    assert.ok(await fields().getByRole('button', { name: 'Remove' }).isDisabled());
    assert.ok(await fields().getByRole('button', { name: 'Duplicate' }).isDisabled());
    await fields().getByRole('button', { name: 'Move down' }).click();
    const before = desk.layout('routes/index.json');
    const after = await saved('routes/index.json');
    assert.deepEqual(after.zones.main, [before.zones.main[1], before.zones.main[0], ...before.zones.main.slice(2)]);
  });

  test('undo and redo lead through edits of two versions, and each text is that of its state', async () => {
    const { page } = desk;
    const file = 'routes/index.json';
    const step = async (name: 'Undo' | 'Redo') => {
      await page.locator('button:enabled', { hasText: name }).click();
    };
    const states: string[] = [desk.text(file)];
    /** Acts, and waits until the step can be undone: the editor library notes it some time after the last change. */
    const noted = async (steps: number, act: () => Promise<void>) => {
      await act();
      await page.locator(`[data-steps="${steps}"]`).waitFor();
      states.push(await desk.draft(file));
    };
    await desk.open('/');
    await desk.zone('hero');
    await outline().getByRole('button', { name: /^Hero/ }).click();
    const title = fields().getByLabel('Title', { exact: true }).first();
    await noted(1, () => title.fill('Four days of rain'));
    await noted(2, () => desk.tab('deutsch').click());
    await outline().getByRole('button', { name: /^Hero “Gemacht/ }).click();
    await noted(3, () => title.fill('Vier Tage Regen'));
    const [first, a, switched, b] = states;
    assert.equal(a, switched);
    assert.notEqual(a, first);
    assert.notEqual(b, a);
    const shows = async (text: string, heading: string) => {
      await desk.preview().getByText(heading).first().waitFor();
      assert.equal(await desk.draft(file), text);
    };
    await step('Undo');
    await shows(a!, 'Gemacht für den dritten Regentag');
    await step('Undo');
    await shows(a!, 'Four days of rain');
    await step('Redo');
    await shows(a!, 'Gemacht für den dritten Regentag');
    await step('Redo');
    await shows(b!, 'Vier Tage Regen');
    for (const [text, heading] of [[a!, 'Gemacht für'], [a!, 'Four days of rain'], [first!, 'Made for the third day of rain']] as const) {
      await step('Undo');
      await shows(text, heading);
    }
    await page.getByRole('button', { name: 'No changes' }).waitFor();
    assert.deepEqual(desk.faults, []);
  });
});
