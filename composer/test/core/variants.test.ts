import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Change, JsonObject, Layout, LayoutNode, PersonalizedZone } from '../../src/core/index.js';
import { addVariant, removeVariant, renameVariant } from '../../src/core/index.js';
import { DEMO, filesOf } from './sites.js';

const front = () => (filesOf(DEMO)['routes/index.json'] as JsonObject).layout as unknown as Layout;
const zoneOf = (change: Change, name = 'hero') => change.layout!.zones[name] as PersonalizedZone;
const text = (value: unknown) => JSON.stringify(value);

test('a variant is added with a copy, whose personalized zones are plain', () => {
  const before = front();
  const hero = before.zones.hero as PersonalizedZone;
  const added = zoneOf(addVariant(before, 'hero', 'spring', 'welcome-back'));
  assert.deepEqual(Object.keys(added.variants), ['deutsch', 'welcome-back', 'slow', 'spring']);
  const [node] = hero.variants['welcome-back']!;
  const next = (node!.zones!['next-step'] as PersonalizedZone).default;
  assert.equal(text(added.variants.spring), text([{ ...node, zones: { 'next-step': next } }]));
  assert.equal(text({ ...added, variants: hero.variants }), text(hero));
  assert.equal(text(before), text(front()));
  assert.deepEqual(zoneOf(addVariant(before, 'hero', 'empty')).variants.empty, []);
  assert.deepEqual(zoneOf(addVariant(before, 'hero', 'same', 'default')).variants.same, hero.default);
});

test('zones in containers and in variants are found', () => {
  const added = addVariant(front(), 'next-step', 'third', 'tonight');
  const next = zoneOf(added).variants['welcome-back']![0]!.zones!['next-step'] as PersonalizedZone;
  assert.deepEqual(next.variants.third, next.variants.tonight);
  assert.equal(text(removeVariant(added.layout!, 'next-step', 'third').layout), text(front()));
  const columns = (addVariant(front(), 'promo', 'x').layout!.zones.main as LayoutNode[])[0]!;
  assert.deepEqual((columns.zones!.promo as PersonalizedZone).variants.x, []);
});

test('a plain zone becomes personalized, in the component that is named', () => {
  const columns = (id: string): LayoutNode => ({
    id,
    type: 'Columns',
    props: {},
    zones: { left: [{ id: `${id}-text`, type: 'Text', props: {} }] },
  });
  const layout: Layout = { root: { props: {} }, zones: { main: [columns('a'), columns('b')] } };
  assert.match(addVariant(layout, 'left', 'x').error!, /The page has 2 zones "left"/);
  const changed = addVariant(layout, 'left', 'x', 'default', 'b').layout!;
  const left = columns('b').zones!.left as LayoutNode[];
  assert.deepEqual(changed.zones.main, [
    columns('a'),
    { ...columns('b'), zones: { left: { default: left, variants: { x: left }, rules: [] } } },
  ]);
  assert.deepEqual(zoneOf(addVariant(changed, 'main', 'y'), 'main').default, changed.zones.main);
  assert.ok(addVariant(changed, 'left', 'z').layout, 'the personalized one is meant');
});

test('a renamed variant keeps its place, and its rules select it', () => {
  const renamed = zoneOf(renameVariant(front(), 'hero', 'deutsch', 'german'));
  assert.deepEqual(Object.keys(renamed.variants), ['german', 'welcome-back', 'slow']);
  assert.deepEqual(renamed.rules[0], { audience: 'german-speaking', variant: 'german' });
  assert.equal(text(renameVariant(front(), 'hero', 'deutsch', 'deutsch').layout), text(front()));
});

test('a removed variant takes its rules with it', () => {
  const removed = zoneOf(removeVariant(front(), 'hero', 'welcome-back'));
  assert.deepEqual(Object.keys(removed.variants), ['deutsch', 'slow']);
  assert.equal(
    text(removed.rules),
    text((front().zones.hero as PersonalizedZone).rules.filter(({ variant }) => variant !== 'welcome-back')),
  );
});

test('changes that break a page are refused in words', () => {
  const errors: [Change, RegExp][] = [
    [removeVariant(front(), 'hero', 'slow'), /"slow" cannot be removed, because visitors of the experiment "slow-front" see it/],
    [renameVariant(front(), 'promo', 'slow', 'x'), /"slow" cannot be renamed, because visitors of the experiment "slow-front" see it/],
    [removeVariant(front(), 'hero', 'default'), /The default content of a zone cannot be removed/],
    [removeVariant(front(), 'hero', 'constructor'), /no variant "constructor"/],
    [removeVariant(front(), 'nowhere', 'x'), /The page has no zone "nowhere"/],
    [removeVariant(front(), 'main', 'x'), /no variant "x"/],
    [renameVariant(front(), 'hero', 'deutsch', 'slow'), /has a variant "slow" already/],
    [renameVariant(front(), 'hero', 'deutsch', 'a b'), /"a b" cannot be the name of a variant/],
    [addVariant(front(), 'hero', 'default'), /has a variant "default" already/],
    [addVariant(front(), 'hero', 'x', 'toString'), /no variant "toString"/],
  ];
  for (const [change, words] of errors) {
    assert.equal(change.layout, undefined);
    assert.match(change.error!, words);
  }
});

test('names that objects have are names of variants too', () => {
  for (const name of ['__proto__', 'constructor', 'hasOwnProperty', '12']) {
    const added = addVariant(front(), 'hero', name, 'deutsch').layout!;
    const { variants } = added.zones.hero as PersonalizedZone;
    assert.ok(Object.keys(variants).includes(name));
    assert.equal(text(removeVariant(added, 'hero', name).layout), text(front()));
    assert.match(addVariant(added, 'hero', name).error!, /already/);
  }
});

test('a zone has at most 64 variants', () => {
  const zone = (count: number): PersonalizedZone => ({
    default: [],
    variants: Object.fromEntries(Array.from({ length: count }, (_, index) => [`v${index}`, []])),
    rules: [],
  });
  const layout = (count: number): Layout => ({ root: { props: {} }, zones: { main: zone(count) } });
  assert.equal(Object.keys(zoneOf(addVariant(layout(62), 'main', 'x'), 'main').variants).length, 63);
  assert.equal(Object.keys(zoneOf(addVariant(layout(63), 'main', 'x'), 'main').variants).length, 64);
  assert.match(addVariant(layout(64), 'main', 'x').error!, /has 64 variants already/);
});
