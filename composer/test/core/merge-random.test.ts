import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Conflict, type Json, merge } from '../../src/core/index.js';
import { type Random, SEED, containersOf, copyOf, counter, isList, isMap, rounds, setEntries } from './random.js';
import { moveItem, randomEdit, randomNode, randomOf, randomValue } from './random.js';
import { DEMO } from './texts.js';

/** Gives each scalar a text of its own, so that a change of a value is a text that appears or disappears. IDs stay. */
function mark(value: Json, next: () => string, seen: Set<Json>): Json {
  if (isList(value)) return value.map((item) => mark(item, next, seen));
  if (isMap(value)) {
    const isNode = typeof value['id'] === 'string';
    const marked = (name: string, member: Json) => (name === 'id' && typeof member !== 'object' ? (isNode ? member : 0) : mark(member, next, seen));
    setEntries(value, Object.entries(value).map(([name, member]) => [name, marked(name, member)]));
    return value;
  }
  const text = typeof value === 'string' && /^[mot]\d+!$/.test(value) && !seen.has(value) ? value : next();
  seen.add(text);
  return text;
}

/**
 * The naive oracle: the places of each scalar and of each node, named by the node around it. IDs that a version has twice or in a mixed list
 * name no place.
 */
function placesOf(value: Json, shared: Set<string>): Map<string, Set<string>> {
  const places = new Map<string, Set<string>>();
  const add = (text: string, place: string) => places.set(text, (places.get(text) ?? new Set()).add(place));
  const visit = (child: Json, place: string): void => {
    if (isList(child)) {
      for (const item of child) {
        const id = isMap(item) && typeof item['id'] === 'string' && !shared.has(item['id']) ? item['id'] : undefined;
        if (id !== undefined) add(`#${id}`, place);
        visit(item, id === undefined ? `${place}[]` : `#${id}`);
      }
    } else if (isMap(child)) {
      for (const [name, member] of Object.entries(child)) visit(member, `${place}/${name}`);
    } else if (typeof child === 'string' && child.endsWith('!')) add(child, place);
  };
  visit(value, '');
  return places;
}

/** Adds the IDs that are no names of places. */
function addShared(value: Json, shared: Set<string>, seen = new Set<string>(), isMixed = false): void {
  if (!isList(value)) {
    if (isMap(value)) for (const member of Object.values(value)) addShared(member, shared, seen, isMixed);
    return;
  }
  const ids = value.map((item) => (isMap(item) ? item['id'] : undefined));
  const isSequence = isMixed || ids.some((id) => typeof id !== 'string') || new Set(ids).size < ids.length;
  value.forEach((item, i) => {
    const id = ids[i];
    if (typeof id === 'string' && (isSequence || seen.has(id))) shared.add(id);
    if (typeof id === 'string') seen.add(id);
    addShared(item, shared, seen, isSequence);
  });
}

const resolve = (value: Json, pointer: string): any =>
  pointer.split('/').slice(1).reduce((at: any, part) => at?.[part.replaceAll('~1', '/').replaceAll('~0', '~')], value);

/** Returns the texts and IDs that a conflict shows. */
function shownBy(conflict: Conflict, versions: Record<'base' | 'ours' | 'theirs', Json>): string {
  if (conflict.kind !== 'moved') return JSON.stringify(conflict);
  const ids = (['base', 'ours', 'theirs'] as const).map((version) => conflict[version] && resolve(versions[version], conflict[version] as string)?.id);
  return ids.map((id) => JSON.stringify({ id })).join();
}

type Places = Map<string, Set<string>>;
type Three<T> = [T, T, T];

/** Fails if a change of a side is neither in the value nor shown by a conflict: a scalar or a node that it has at another place, or no more. */
function checkChanges(base: Json, side: Json, value: Json, shared: Set<string>, shown: string): void {
  const [before, wanted, result] = [base, side, value].map((version) => placesOf(version, shared)) as Three<Places>;
  for (const text of new Set([...before.keys(), ...wanted.keys()])) {
    const [old, now, merged] = [before, wanted, result].map((places) => places.get(text) ?? new Set<string>()) as Three<Set<string>>;
    // Nothing tells the items of a list with an ID twice apart: a place there does not say which item a text is in.
    const isVague = (place: string) => place.includes('[]') && [base, side, value].some(hasIdTwice);
    const added = [...now].filter((place) => !old.has(place) && !merged.has(place) && !isVague(place));
    const removed = [...old].filter((place) => !now.has(place) && merged.has(place) && !isVague(place));
    // A node that one side removed is at no place at all.
    const returned = text.startsWith('#') && now.size === 0 ? [...merged] : [];
    for (const place of [...added, ...removed, ...returned]) {
      assert.ok(isShown(text, place, shown), `${text} at ${place}: ${[...old]} to ${[...now]}, merged ${[...merged]}`);
    }
  }
}

const hasIdTwice = (value: Json): boolean =>
  containersOf(value).some((list) => {
    const ids = isList(list) ? list.map((item) => isMap(item) && item['id']).filter((id) => typeof id === 'string') : [];
    return new Set(ids).size < ids.length;
  });

function isShown(text: string, place: string, shown: string): boolean {
  const owner = /^#([^/[]*)/.exec(place)?.[1];
  if (owner !== undefined && shown.includes(JSON.stringify({ id: owner }))) return true;
  return shown.includes(text.startsWith('#') ? `"id":${JSON.stringify(text.slice(1))}` : `"${text}"`);
}

/** Returns for each list of nodes the order of its IDs, by the place of the list. */
function ordersOf(value: Json, shared: Set<string>): Map<string, string[]> {
  const orders = new Map<string, string[]>();
  for (const [text, [place]] of placesOf(value, shared)) if (text.startsWith('#')) orders.set(place!, [...(orders.get(place!) ?? []), text.slice(1)]);
  return orders;
}

/** Fails if the order of two nodes is neither that of the side that changed it nor shown by a conflict. The order of a removed node does not count. */
function checkOrder(base: Json, side: Json, value: Json, shared: Set<string>, shown: string, removed: string): void {
  const [before, wanted, result] = [base, side, value].map((version) => ordersOf(version, shared)) as [any, any, any];
  for (const [place, order] of before as Map<string, string[]>) {
    const [a, b] = [wanted.get(place) ?? [], result.get(place) ?? []] as [string[], string[]];
    const common = order.filter((id) => a.includes(id) && b.includes(id));
    for (const x of common) {
      for (const y of common) {
        const isBefore = (list: string[]) => list.indexOf(x) < list.indexOf(y);
        if (isBefore(order) === isBefore(a) || isBefore(a) === isBefore(b)) continue;
        const isListed = [x, y].every((id) => shown.includes(JSON.stringify(id))) || [x, y].some((id) => removed.includes(JSON.stringify(id)));
        assert.ok(isListed, `the order of ${x} and ${y} in ${place} is lost`);
      }
    }
  }
}

/** Returns a value without the content of its nodes, which are merged on their own. */
function withoutNodes(value: Json, shared: Set<string>): Json {
  if (isMap(value)) return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, withoutNodes(member, shared)]));
  if (!isList(value)) return value;
  return value.map((item) => (isMap(item) && typeof item['id'] === 'string' && !shared.has(item['id']) ? { id: item['id'] } : withoutNodes(item, shared)));
}

function checkMerge(base: Json, ours: Json, theirs: Json): Conflict[] {
  const { value, conflicts } = merge(base, ours, theirs);
  const mirrored = merge(base, theirs, ours);
  assert.equal(conflicts.length > 0, mirrored.conflicts.length > 0, 'a conflict of one direction only');
  if (conflicts.length === 0) assert.deepStrictEqual(value, mirrored.value);
  for (const side of [ours, theirs]) {
    assert.deepStrictEqual(merge(base, side, base), { value: side, conflicts: [] });
    assert.deepStrictEqual(merge(base, base, side), { value: side, conflicts: [] });
    assert.deepStrictEqual(merge(base, side, side), { value: side, conflicts: [] });
  }
  const shared = new Set<string>();
  for (const version of [base, ours, theirs, value]) addShared(version, shared);
  const shown = conflicts.map((conflict) => shownBy(conflict, { base, ours, theirs })).join();
  for (const side of [ours, theirs]) {
    checkChanges(base, side, value, shared, shown);
    checkOrder(base, side, value, shared, shown, JSON.stringify(conflicts.filter(({ kind }) => kind === 'removed')));
  }
  for (const { kind, path, ours: own } of conflicts) {
    if (kind === 'moved' || kind === 'order' || own === undefined) continue;
    const [found, wanted] = [resolve(value, path), own].map((at) => withoutNodes(at, shared));
    assert.deepStrictEqual(found, wanted, 'the value has ours at the path of a conflict');
  }
  return conflicts;
}

type Editor = (random: Random, root: { value: Json }, ids: () => string) => void;

function randomVersion(random: Random, base: Json, edits: number, name: string, ids: () => string, edit: Editor): Json {
  const root = { value: copyOf(base) };
  for (let i = 0; i < edits; i++) {
    edit(random, root, ids);
    root.value = mark(root.value, counterOfTexts(name), new Set());
  }
  return root.value;
}

const texts = new Map<string, number>();

/** Returns a source of texts that no other value has. */
function counterOfTexts(name: string): () => string {
  return () => {
    texts.set(name, (texts.get(name) ?? 0) + 1);
    return `${name}${texts.get(name)}!`;
  };
}

function checkSeed(seed: number, start: (random: Random, ids: () => string) => Json, edit: Editor = randomEdit): Conflict[] {
  const random = randomOf(seed);
  const unique = counter('n');
  const ids = random.chance(0.3) ? () => (random.chance(0.2) ? random.pick(['hero', 'x']) : unique()) : unique;
  const base = mark(start(random, ids), counterOfTexts('m'), new Set());
  const common = random.chance(0.2) ? randomVersion(random, base, 1, 'm', ids, edit) : base;
  const [ours, theirs] = ['o', 't'].map((name) => randomVersion(random, common, random.pick([1, 1, 2, 4]), name, ids, edit)) as [Json, Json];
  try {
    return checkMerge(base, ours, theirs);
  } catch (error) {
    console.log(`failed with seed ${seed}\n${[base, ours, theirs].map((version) => JSON.stringify(version)).join('\n')}`);
    throw error;
  }
}

/** Returns a page with zones, containers, a personalized zone with rules, and lists of names. */
function randomPage(random: Random, ids: () => string): Json {
  const nodes = (depth: number) => Array.from({ length: random.below(5) + 1 }, () => randomNode(random, depth, ids));
  const rules = Array.from({ length: random.below(4) }, (): Json => (random.chance(0.5) ? { audience: '', variant: '' } : { experiment: { key: '', weights: [1, 2] } }));
  return { zones: { main: nodes(2), side: { default: nodes(0), variants: { one: nodes(0), two: nodes(1) }, rules }, end: [] }, names: [1, 2, 3] };
}

/** Moves, removes, inserts or changes a node, or changes the page in any other way. */
const editPage: Editor = (random, root, ids) => {
  const lists = containersOf(root.value).filter((list): list is Json[] => isList(list) && list.every((item) => isMap(item) && typeof item['id'] === 'string'));
  const kind = random.below(8);
  if (kind === 0 || lists.length === 0) return randomEdit(random, root, ids);
  const list = random.pick(lists);
  if (list.length === 0 || kind === 1) list.splice(random.below(list.length + 1), 0, randomNode(random, 1, ids));
  const at = random.below(list.length);
  if (kind === 2) list.splice(at, 1);
  else if (kind < 5) list.splice(random.below(list.length), 0, ...list.splice(at, 1));
  else if (kind < 7) moveItem(random, root.value, list, at);
  else (list[at] as any).props = { title: 0, size: 0 };
};

function countKinds(count: number, check: (seed: number) => Conflict[]): Map<string, number> {
  const kinds = new Map<string, number>();
  for (let i = 0; i < count; i++) {
    const conflicts = check(SEED + i);
    for (const kind of conflicts.length === 0 ? ['none'] : conflicts.map((conflict) => conflict.kind)) kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
  }
  return kinds;
}

test('each change of two sides of a random document is in the value or in a conflict', () => {
  const kinds = countKinds(rounds(1_000, 40_000), (seed) => checkSeed(seed, (random, ids) => randomValue(random, 5, ids)));
  for (const kind of ['none', 'changed', 'removed']) assert.ok(kinds.get(kind)! > 50, `few merges with ${kind}: ${[...kinds]}`);
});

test('each moved, removed, new or changed node of two sides of a random page is so too', () => {
  const kinds = countKinds(rounds(2_000, 60_000), (seed) => checkSeed(seed, randomPage, editPage));
  for (const kind of ['none', 'changed', 'removed', 'moved', 'order']) assert.ok(kinds.get(kind)! > 5, `few merges with ${kind}: ${[...kinds]}`);
});

test('each change of two sides of a page of the demo site is so too', () => {
  const pages = Object.keys(DEMO).filter((name) => name.startsWith('routes/'));
  const page = (random: Random): Json => JSON.parse(DEMO[random.pick(pages)]!);
  for (let i = 0; i < rounds(100, 5_000); i++) checkSeed(SEED + i, page, i % 2 === 0 ? randomEdit : editPage);
});
