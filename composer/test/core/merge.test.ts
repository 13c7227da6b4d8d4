import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type Conflict, type Json, MergeError, merge, mergeFiles } from '../../src/core/index.js';
import { DEMO } from './texts.js';

const node = (id: string, title = id): any => ({ id, type: 'Text', props: { title } });
const zone = (list: any[]): string => list.map(({ id }) => id).join(' ');

const BASE: any = {
  path: '/',
  zones: {
    main: [node('a'), node('b'), { ...node('box'), zones: { left: [node('x'), node('y')] } }],
    side: {
      default: [node('s')],
      variants: { one: [node('v1')] },
      rules: [{ audience: 'new', variant: 'one' }, { experiment: { key: 'k', variants: ['default', 'one'] } }, { audience: 'old', variant: 'one' }],
    },
  },
};

type Change = (page: any) => unknown;

function changed(change: Change): any {
  const page = structuredClone(BASE);
  change(page);
  return page;
}

/** Merges two changes of the base, in both directions. */
function mergeChanges(ours: Change, theirs: Change): { value: any; conflicts: Conflict[] } {
  const [o, t] = [changed(ours), changed(theirs)];
  const copies = structuredClone([BASE, o, t]);
  const merged = merge(BASE, o, t);
  const mirrored = merge(BASE, t, o);
  assert.deepEqual([BASE, o, t], copies, 'the versions are not changed');
  assert.equal(merged.conflicts.length, mirrored.conflicts.length);
  if (merged.conflicts.length === 0) assert.deepEqual(merged.value, mirrored.value);
  return merged;
}

function mergeClean(ours: Change, theirs: Change): any {
  const { value, conflicts } = mergeChanges(ours, theirs);
  assert.deepEqual(conflicts, []);
  return value;
}

function mergeConflict(ours: Change, theirs: Change): { value: any; conflict: Conflict } {
  const { value, conflicts } = mergeChanges(ours, theirs);
  assert.equal(conflicts.length, 1, JSON.stringify(conflicts));
  return { value, conflict: conflicts[0]! };
}

const main = (page: any): any[] => page.zones.main;
const left = (page: any): any[] => main(page).find(({ id }) => id === 'box').zones.left;
const rules = (page: any): any[] => page.zones.side.rules;
const take = (list: any[], id: string): any => list.splice(list.findIndex((item) => item.id === id), 1)[0];

describe('changes that do not contradict each other', () => {
  test('a change of one side wins over no change of the other', () => {
    const ours = changed((page) => (main(page)[0].props.title = 'A'));
    assert.deepEqual(merge(BASE, ours, BASE), { value: ours, conflicts: [] });
    assert.deepEqual(merge(BASE, BASE, ours), { value: ours, conflicts: [] });
  });

  test('equal changes are one change', () => {
    const change: Change = (page) => (main(page).push(node('new')), rules(page).shift(), (page.path = '/x'));
    assert.deepEqual(mergeClean(change, change), changed(change));
  });

  test('changes of different members are both there', () => {
    const value = mergeClean((page) => (main(page)[0].props.title = 'A'), (page) => ((main(page)[0].props.size = 1), delete main(page)[0].type));
    assert.deepEqual(main(value)[0], { id: 'a', props: { title: 'A', size: 1 } });
  });

  test('a node that one side moved between zones and the other changed is moved and changed', () => {
    const move: Change = (page) => left(page).push(take(main(page), 'a'));
    const value = mergeClean(move, (page) => (main(page)[0].props.title = 'A'));
    assert.deepEqual([zone(main(value)), zone(left(value)), left(value)[2].props.title], ['b box', 'x y a', 'A']);
  });

  test('a node that one side wrapped in a new container and the other changed keeps both', () => {
    const wrap: Change = (page) => (main(page)[1] = { ...node('new'), zones: { inner: [main(page)[1]] } });
    const value = mergeClean(wrap, (page) => (main(page)[1].props.title = 'B'));
    assert.deepEqual(main(value)[1].zones.inner, [node('b', 'B')]);
  });

  test('a zone that one side personalized keeps the other side\'s change of a node in it', () => {
    const personalize: Change = (page) => (page.zones.main = { default: main(page), variants: { z: [] }, rules: [] });
    const value = mergeClean(personalize, (page) => (main(page)[1].props.title = 'B'));
    assert.deepEqual(value.zones.main.default[1], node('b', 'B'));
  });

  test('a renamed variant keeps the other side\'s change of a node in it', () => {
    const rename: Change = ({ zones: { side } }) => (side.variants = { uno: side.variants.one });
    const value = mergeClean(rename, (page) => (page.zones.side.variants.one[0].props.title = 'V'));
    assert.deepEqual(value.zones.side.variants, { uno: [node('v1', 'V')] });
  });

  test('a container moves with the nodes that the other side adds to it and takes out of it', () => {
    const edit: Change = (page) => (left(page).push(node('new')), main(page).push(take(left(page), 'x')));
    const value = mergeClean((page) => (page.zones.other = [take(main(page), 'box')]), edit);
    assert.deepEqual([zone(main(value)), zone(value.zones.other), zone(value.zones.other[0].zones.left)], ['a b x', 'box', 'y new']);
  });

  test('moves of different nodes in one zone are both there', () => {
    const value = mergeClean((page) => main(page).unshift(main(page).pop()), (page) => main(page).splice(1, 0, node('n'), node('m')));
    assert.equal(zone(main(value)), 'box a n m b');
    const list = [...'abcdef'].map((id) => node(id));
    const [o, t] = ['fabcde', 'acdbef'].map((order) => [...order].map((id) => node(id)));
    assert.deepEqual(merge(list, o!, t!), { value: [...'facdbe'].map((id) => node(id)), conflicts: [] });
  });

  test('nodes that both sides insert at the same place are both there, in the same order for both', () => {
    assert.equal(zone(main(mergeClean((page) => main(page).unshift(node('n2')), (page) => main(page).unshift(node('n1'))))), 'n1 n2 a b box');
  });

  test('rules that the sides insert, remove and change at different places are merged in their order', () => {
    const value = mergeClean((page) => rules(page).unshift({ audience: 'first', variant: 'one' }), (page) => ((rules(page)[1].experiment.coverage = 0.5), rules(page).pop()));
    assert.deepEqual(rules(value).map((rule) => rule.audience ?? rule.experiment), ['first', 'new', { key: 'k', variants: ['default', 'one'], coverage: 0.5 }]);
  });

  test('both sides can change one experiment in different members', () => {
    const value = mergeClean((page) => (rules(page)[1].experiment.from = 'x'), (page) => (rules(page)[1].experiment.to = 'y'));
    assert.deepEqual(rules(value)[1].experiment, { key: 'k', variants: ['default', 'one'], from: 'x', to: 'y' });
  });

  test('nodes with an ID that variants share are merged in their variant', () => {
    const base = { default: [node('h', '1')], variants: { v: [node('h', '2')] } };
    const [o, t] = [structuredClone(base), structuredClone(base)];
    o.default[0].props.title = 'ours';
    t.variants.v[0]!.props.title = 'theirs';
    assert.deepEqual(merge(base, o, t), { value: { default: [node('h', 'ours')], variants: { v: [node('h', 'theirs')] } }, conflicts: [] });
  });

  test('a member named __proto__ is merged', () => {
    const [b, o, t] = ['{"__proto__":{"a":1}}', '{"__proto__":{"a":2}}', '{"__proto__":{"a":1},"b":{"__proto__":1}}'].map((text) => JSON.parse(text));
    assert.equal(JSON.stringify(merge(b, o, t).value), '{"__proto__":{"a":2},"b":{"__proto__":1}}');
  });
});

describe('a conflict', () => {
  test('of two different values has both, and the value has ours', () => {
    const { value, conflict } = mergeConflict((page) => (main(page)[1].props.title = 'o'), (page) => (main(page)[1].props.title = 't'));
    assert.deepEqual(conflict, { kind: 'changed', path: '/zones/main/1/props/title', base: 'b', ours: 'o', theirs: 't' });
    assert.equal(main(value)[1].props.title, 'o');
  });

  test('of two different new values has no base', () => {
    const { conflict } = mergeConflict((page) => (page.a = { x: 1 }), (page) => (page.a = { y: 2 }));
    assert.deepEqual(conflict, { kind: 'changed', path: '/a', ours: { x: 1 }, theirs: { y: 2 } });
  });

  test('of a node that one side removed and the other changed has the node of the other', () => {
    const remove: Change = (page) => take(main(page), 'b');
    const change: Change = (page) => (main(page)[1].props.title = 'B');
    const removed = mergeConflict(remove, change);
    assert.deepEqual(removed.conflict, { kind: 'removed', path: '/zones/main/-', base: node('b'), theirs: node('b', 'B') });
    assert.equal(zone(main(removed.value)), 'a box');
    const kept = mergeConflict(change, remove);
    assert.deepEqual(kept.conflict, { kind: 'removed', path: '/zones/main/1', base: node('b'), ours: node('b', 'B') });
    assert.deepEqual(main(kept.value)[1], node('b', 'B'));
  });

  test('of a container that one side removed, and in which the other changed a node, has the container', () => {
    const { conflict } = mergeConflict((page) => take(main(page), 'box'), (page) => left(page).push(node('new')));
    assert.deepEqual([conflict.kind, conflict.path, zone((conflict.theirs as any).zones.left)], ['removed', '/zones/main/-', 'x y new']);
  });

  test('of a variant that one side removed and the other changed has the variant', () => {
    const { conflict } = mergeConflict((page) => delete page.zones.side.variants.one, (page) => page.zones.side.variants.one.push(node('v2')));
    assert.deepEqual([conflict.kind, conflict.path], ['removed', '/zones/side/variants/one']);
  });

  test('of a node that both sides moved to different places has the places', () => {
    const { value, conflict } = mergeConflict((page) => left(page).push(take(main(page), 'a')), (page) => page.zones.side.default.push(take(main(page), 'a')));
    const pointers = { base: '/zones/main/0', ours: '/zones/main/1/zones/left/2', theirs: '/zones/side/default/1' };
    assert.deepEqual(conflict, { kind: 'moved', path: '/zones/main/1/zones/left/2', ...pointers });
    assert.deepEqual([zone(left(value)), zone(value.zones.side.default)], ['x y a', 's']);
  });

  test('of a node that one side moved and the other removed has the node of the other', () => {
    const removed = mergeConflict((page) => take(main(page), 'a'), (page) => left(page).push(take(main(page), 'a')));
    assert.deepEqual(removed.conflict, { kind: 'removed', path: '/zones/main/-', base: node('a'), theirs: node('a') });
    assert.deepEqual([zone(main(removed.value)), zone(left(removed.value))], ['b box', 'x y']);
    const kept = mergeConflict((page) => left(page).push(take(main(page), 'a')), (page) => take(main(page), 'a'));
    assert.deepEqual(kept.conflict, { kind: 'removed', path: '/zones/main/1/zones/left/2', base: node('a'), ours: node('a') });
    assert.deepEqual([zone(main(kept.value)), zone(left(kept.value))], ['b box', 'x y a']);
  });

  test('of two containers that were moved into each other keeps both in the value', () => {
    const boxes = (): any => ({ main: [{ ...node('p'), zones: { in: [] } }, { ...node('q'), zones: { in: [] } }] });
    const [base, o, t] = [boxes(), boxes(), boxes()];
    o.main[1].zones.in.push(o.main.shift());
    t.main[0].zones.in.push(t.main.pop());
    const { value, conflicts } = merge(base, o, t);
    assert.deepEqual([value, conflicts.map(({ kind }) => kind)], [o, ['moved']]);
  });

  test('of a node that one side moved into a container that the other removed keeps our place', () => {
    const { value, conflicts } = mergeChanges((page) => take(main(page), 'box'), (page) => left(page).push(take(main(page), 'a')));
    assert.equal(zone(main(value)), 'a b');
    assert.ok(conflicts.some(({ kind, theirs }) => kind === 'moved' && theirs === '/zones/main/1/zones/left/2'));
  });

  test('of two different orders has the orders', () => {
    const list = [...'abcd'].map((id) => node(id));
    const [o, t] = ['bacd', 'acbd'].map((order) => [...order].map((id) => node(id)));
    const { value, conflicts } = merge({ list }, { list: o! }, { list: t! });
    assert.deepEqual(value, { list: o });
    assert.deepEqual(conflicts, [{ kind: 'order', path: '/list', base: [...'abcd'], ours: [...'bacd'], theirs: [...'acbd'] }]);
  });

  test('of a node that both sides moved to different places of its list has the orders', () => {
    const [base, o, t] = ['abx', 'xab', 'axb'].map((order) => [...order].map((id) => node(id))) as [Json[], Json[], Json[]];
    for (const [ours, theirs] of [[o, t], [t, o]] as const) {
      const { value, conflicts } = merge(base, ours, theirs);
      assert.deepEqual([value, conflicts.map(({ kind }) => kind)], [ours, ['order']]);
    }
  });

  test('of a node that one side moved in its list and the other removed has the node', () => {
    const { value, conflict } = mergeConflict((page) => main(page).push(main(page).shift()), (page) => take(main(page), 'a'));
    assert.deepEqual(conflict, { kind: 'removed', path: '/zones/main/2', base: node('a'), ours: node('a') });
    assert.equal(zone(main(value)), 'b box a');
  });

  test('of a rule that one side moved and the other removed has the lists', () => {
    const { value, conflict } = mergeConflict((page) => rules(page).shift(), (page) => rules(page).push(rules(page).shift()));
    assert.deepEqual([conflict.kind, conflict.path, rules(value).length], ['changed', '/zones/side/rules', 2]);
  });

  test('of rules that both sides insert at the same place has the lists', () => {
    const { value, conflict } = mergeConflict((page) => rules(page).push({ audience: 'o', variant: 'one' }), (page) => rules(page).push({ audience: 't', variant: 'one' }));
    assert.deepEqual([conflict.kind, conflict.path, (conflict.theirs as any)[3].audience, rules(value)[3].audience], ['changed', '/zones/side/rules', 't', 'o']);
  });

  test('of orders of more than 500 items is not searched for a common order', () => {
    for (const [count, expected] of [[499, 0], [500, 0], [501, 1]] as const) {
      const list = Array.from({ length: count }, (_, i) => ({ id: `${i}` }));
      const { conflicts } = merge(list, [list[1]!, list[0]!, ...list.slice(2)], [...list.slice(0, -2), list[count - 1]!, list[count - 2]!]);
      assert.equal(conflicts.length, expected);
    }
  });
});

describe('a value that cannot be merged', () => {
  test('is refused by name', () => {
    const deep = (levels: number): Json => JSON.parse('['.repeat(levels) + ']'.repeat(levels));
    for (const levels of [126, 127]) assert.deepEqual(merge([], deep(levels), []).value, deep(levels));
    assert.throws(() => merge([], deep(128), []), MergeError);
    assert.throws(() => merge([], [NaN], []), MergeError);
  });

  test('is also a result that is nested too deeply', () => {
    const chain = (ids: string[]): any => ids.reduceRight((inner: any[], id) => [{ ...node(id), zones: { in: inner } }], []);
    const ids = Array.from({ length: 30 }, (_, i) => `n${i}`);
    const flat = (part: string[]): any => part.flatMap((id) => chain([id]));
    const base = { a: flat(ids), b: chain(['r']) };
    const ours = { a: chain(ids), b: base.b };
    const theirs = { a: flat(ids.slice(1)), b: [{ ...base.b[0], zones: { in: [{ ...node('w'), zones: { in: chain(['n0']) } }] } }] };
    assert.deepEqual(merge(base, ours, theirs).conflicts, []);
    const long = Array.from({ length: 41 }, (_, i) => `n${i}`);
    const [b, o] = [{ a: flat(long), b: [] as any[] }, { a: chain(long), b: [] as any[] }];
    const t = { a: flat(long.slice(1)), b: chain(['p', 'q', 'r', 'n0']) };
    assert.throws(() => merge(b, o, t), /nested deeper than 127 levels/);
  });
});

describe('the files of a site', () => {
  const json = (value: Json) => `${JSON.stringify(value)}\n`;

  test('are added, removed and changed by each side', () => {
    const base = { same: '1', 'o-changed': '[1]', 't-changed': '[1]', 'o-removed': '1', 't-removed': '1', both: '1' };
    const ours = { same: '1', 'o-changed': '[ 2 ]', 't-changed': '[1]', 't-removed': '1', 'o-added': '3', equal: '4' };
    const theirs = { same: '1', 'o-changed': '[1]', 't-changed': '[ 2]', 'o-removed': '1', 't-added': '3', equal: '4' };
    const files = { same: '1', 'o-changed': '[ 2 ]', 't-changed': '[ 2]', 'o-added': '3', 't-added': '3', equal: '4' };
    assert.deepEqual(mergeFiles(base, ours, theirs), { files, conflicts: [] });
  });

  test('that both sides changed keep the text of theirs', () => {
    const base = DEMO['routes/index.json']!;
    const ours = base.replace('"gap": 24', '"gap": 32');
    const theirs = base.replace('Made for the third day', 'Made for the fourth day').replace('6490.00', '6490.0').replaceAll('\n', '\r\n');
    const { files, conflicts } = mergeFiles({ page: base }, { page: ours }, { page: theirs });
    assert.deepEqual(conflicts, []);
    assert.equal(files['page'], theirs.replace('"gap": 24', '"gap": 32'));
  });

  test('have the path of the file in each conflict', () => {
    const { files, conflicts } = mergeFiles({ 'a.json': '{"x": 1, "y": 1}' }, { 'a.json': '{"x": 2, "y": 1}' }, { 'a.json': '{ "x": 3, "y": 2 }' });
    assert.deepEqual(conflicts, [{ file: 'a.json', kind: 'changed', path: '/x', base: 1, ours: 2, theirs: 3 }]);
    assert.deepEqual(files, { 'a.json': '{ "x": 2, "y": 2 }' });
  });

  test('that one side removed and the other changed are conflicts', () => {
    const removed = mergeFiles({ a: '1' }, {}, { a: '2' });
    assert.deepEqual(removed, { files: {}, conflicts: [{ file: 'a', kind: 'file', path: '', base: '1', theirs: '2' }] });
    assert.deepEqual(mergeFiles({ a: '1' }, { a: '2' }, {}), { files: { a: '2' }, conflicts: [{ file: 'a', kind: 'file', path: '', base: '1', ours: '2' }] });
  });

  test('that both sides added are a conflict if their values differ', () => {
    assert.deepEqual(mergeFiles({}, { a: '[1]' }, { a: '[ 1.0 ]' }), { files: { a: '[ 1.0 ]' }, conflicts: [] });
    assert.equal(mergeFiles({}, { a: '[1]' }, { a: '[2]' }).conflicts[0]!.kind, 'file');
  });

  test('that are no JSON are compared as texts', () => {
    const notes = (text: string) => ({ 'README.md': text });
    assert.deepEqual(mergeFiles(notes('a'), notes('b'), notes('a')), { files: notes('b'), conflicts: [] });
    assert.deepEqual(mergeFiles(notes('a'), notes('b'), notes('b')).conflicts, []);
    const { files, conflicts } = mergeFiles(notes('{'), notes('{}'), notes('{"a": 1}'));
    assert.deepEqual([files, conflicts], [notes('{}'), [{ file: 'README.md', kind: 'file', path: '', base: '{', ours: '{}', theirs: '{"a": 1}' }]]);
  });

  test('can have any name', () => {
    const named = (text: string) => JSON.parse(`{"__proto__": ${JSON.stringify(text)}, "constructor": "1"}`);
    const { files } = mergeFiles(named(json([1])), named(json([2])), {});
    assert.deepEqual(Object.entries(files), [['__proto__', json([2])]]);
  });
});
