import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, test } from 'node:test';
import { type Layout, canHold, fromPuck, insertBlock, locksOf, moveBlock, placeOf, removeBlock, shownZones, spotOf, toPuck } from '../../src/core/index.js';

const layout = (): Layout => JSON.parse(readFileSync(path.join(process.env.PARALLAX_COMPOSER!, '../snapshots/demo/routes/index.json'), 'utf8')).layout;
const find = (zones: any, pointer: string) => pointer.split('/').reduce((value, key) => value[key], zones);

/** Returns the IDs of all blocks and the rules of all zones, of all versions. */
const idsIn = (value: Layout) => JSON.stringify(value).match(/"id":"[^"]+"|"rules":\[.*?\]\}/g)!.sort();

describe('blocks', () => {
  test('every move of every block to every place is that of a list, and keeps all versions', () => {
    const data = toPuck(layout(), { hero: 'welcome-back' });
    const zones = shownZones(data);
    let moves = 0;
    for (const { props } of zones.flatMap(({ blocks }) => blocks)) {
      for (const { owner, name, blocks } of zones) {
        for (let index = 0; index <= blocks.length; index += 1) {
          const to = { owner: owner?.props.id ?? null, zone: name, index };
          const moved = moveBlock(data, props.id, to);
          if (!canHold(data, props.id, to.owner)) {
            assert.equal(moved, null);
            continue;
          }
          const ids = blocks.map((block) => (block.props.id === props.id ? 'old' : block.props.id));
          ids.splice(index, 0, props.id);
          const target = shownZones(moved!).find((zone) => zone.name === name && (zone.owner?.props.id ?? null) === to.owner)!;
          assert.deepEqual(target.blocks.map((block) => block.props.id), ids.filter((id) => id !== 'old'));
          assert.deepEqual(idsIn(fromPuck(moved!)), idsIn(layout()));
          assert.deepEqual({ ...spotOf(moved!, props.id), index: 0 }, { ...to, index: 0 });
          moves += 1;
        }
      }
    }
    assert.ok(moves > 60, `${moves}`);
  });

  test('a block does not move into itself or into a block within it', () => {
    const data = toPuck(layout(), { hero: 'welcome-back' });
    assert.equal(moveBlock(data, 'front-columns', { owner: 'front-columns', zone: 'left', index: 0 }), null);
    assert.equal(moveBlock(data, 'hero-back', { owner: 'next-recent', zone: 'within', index: 0 }), null);
    assert.equal(moveBlock(data, 'hero-de', { owner: null, zone: 'main', index: 0 }), null, 'a block that is not shown');
    assert.ok(canHold(data, 'front-picks', 'front-columns'));
  });

  test('a block is inserted into a zone that does not exist yet, and removed', () => {
    const data = toPuck(layout());
    const block = { type: 'Text', props: { id: 'new', props: {} } };
    const inserted = fromPuck(insertBlock(data, block, { owner: 'front-picks', zone: 'below', index: 0 }));
    assert.deepEqual(find(inserted.zones, 'main/0/zones/left/0/zones/below'), [{ id: 'new', type: 'Text', props: {} }]);
    const expected = layout();
    (expected.zones.main as any[]).splice(1, 1);
    assert.deepEqual(fromPuck(removeBlock(data, 'front-new')), expected);
  });

  test('a lock is that of a zone and of all within it', () => {
    const data = toPuck(layout(), { hero: 'welcome-back' });
    const main = locksOf(data, (zone) => zone === 'main');
    assert.deepEqual([...main.inside].sort(), ['front-columns', 'front-letter', 'front-new', 'front-picks', 'front-stories', 'promo-repair']);
    assert.deepEqual([...main.around], ['front-columns'], 'its own zones are locked as well');
    const step = locksOf(data, (zone) => zone === 'next-step');
    assert.deepEqual([[...step.inside], [...step.around]], [['next-recent'], ['hero-back']]);
  });

  test('a pointer leads to the innermost block or zone, with the versions around it', () => {
    const cases: [string, ReturnType<typeof placeOf>][] = [
      ['/zones/main/0/zones/left/0/props/items/1', { block: 'front-picks', zone: 'left', chosen: {} }],
      ['/zones/hero/variants/welcome-back/0/zones/next-step/variants/tonight/0/type', { block: 'next-tonight', zone: 'next-step', chosen: { hero: 'welcome-back', 'next-step': 'tonight' } }],
      ['/zones/hero/variants/welcome-back/0/zones/next-step/rules/1/when', { block: null, zone: 'next-step', chosen: { hero: 'welcome-back' } }],
      ['/zones/hero/rules/2', { block: null, zone: 'hero', chosen: {} }],
      ['/zones/hero/default/0/id', { block: 'hero-default', zone: 'hero', chosen: { hero: 'default' } }],
      ['/zones/hero/variants/nothing/0', { block: null, zone: 'hero', chosen: {} }],
      ['/zones/main/9', { block: null, zone: 'main', chosen: {} }],
      ['/zones/constructor/0', { block: null, zone: null, chosen: {} }],
      ['/root/props/title', { block: null, zone: null, chosen: {} }],
      ['', { block: null, zone: null, chosen: {} }],
    ];
    for (const [pointer, place] of cases) assert.deepEqual(placeOf(layout(), pointer), place, pointer);
    const odd: Layout = { root: {}, zones: { 'a/b~c': [{ id: 'x', type: 'Text' }] } };
    assert.deepEqual(placeOf(odd, '/zones/a~1b~0c/0'), { block: 'x', zone: 'a/b~c', chosen: {} });
  });
});
