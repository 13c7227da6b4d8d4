import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Node, parseTree } from 'jsonc-parser';
import { type Json, patch } from '../../src/core/index.js';
import { SEED, counter, isMap, randomEdit, randomOf, randomText, randomValue, rounds } from './random.js';
import { DEMO, examplesOf } from './texts.js';

/** The naive oracle of what an edit leaves as it is. */
interface Oracle {
  /** Pairs of a scalar before and after, of which both texts must be equal. */
  kept: [Node, Node][];
  /** Ranges of the text that the edit may change. All lines without a part of them must stay, in order. */
  touched: [number, number][];
}

const valueOf = (text: string, node: Node): Json => JSON.parse(text.slice(node.offset, node.offset + node.length));
const endOf = (node: Node): number => node.offset + node.length;
const same = (one: unknown, other: unknown): boolean => {
  try {
    assert.deepStrictEqual(one, other);
    return true;
  } catch {
    return false;
  }
};

/** Compares two texts: members by name, items by ID if all items have different ones, else those at the beginning and the end that are equal. */
function compare(before: string, after: string): Oracle {
  const oracle: Oracle = { kept: [], touched: [] };
  const visit = (old: Node, now: Node): void => {
    const kinds = `${old.type} ${now.type}`;
    if (kinds === 'object object') return visitObjects(old, now);
    if (kinds === 'array array') return visitArrays(old, now);
    if (old.type === now.type && Object.is(old.value, now.value)) oracle.kept.push([old, now]);
    else oracle.touched.push([old.offset, endOf(old)]);
  };
  const gap = (old: Node, from: number, to: number): void => {
    const parts = old.children!;
    oracle.touched.push([from > 0 ? endOf(parts[from - 1]!) : old.offset, to < parts.length ? parts[to]!.offset : endOf(old)]);
  };
  const visitObjects = (old: Node, now: Node): void => {
    if (old.children!.length === 0 || now.children!.length === 0) gap(old, 0, old.children!.length);
    const [last, wanted] = [old, now].map((node) => new Map(node.children!.map((part, i) => [part.children![0]!.value as string, { part, i }]))) as [any, any];
    old.children!.forEach((part, i) => {
      const name = part.children![0]!.value;
      if (!wanted.has(name)) gap(old, i, i + 1);
      else if (last.get(name).i === i) {
        oracle.kept.push([part.children![0]!, wanted.get(name).part.children![0]!]);
        visit(part.children![1]!, wanted.get(name).part.children![1]!);
      }
    });
    now.children!.forEach((part, i) => {
      if (last.has(part.children![0]!.value)) return;
      const known = now.children!.slice(0, i).reverse().find((other) => last.has(other.children![0]!.value));
      const at = known ? last.get(known.children![0]!.value).i + 1 : 0;
      gap(old, at, at);
    });
  };
  const visitArrays = (old: Node, now: Node): void => {
    const [a, b] = [valueOf(before, old), valueOf(after, now)] as [Json[], Json[]];
    if (a.length === 0 || b.length === 0) return a.length === b.length ? undefined : gap(old, 0, a.length);
    const ids = [a, b].map((list) => list.map((item) => (isMap(item) && typeof item['id'] === 'string' ? item['id'] : undefined)));
    const haveIds = ids.every((list) => !list.includes(undefined) && new Set(list).size === list.length);
    if (haveIds) return visitNodes(old, now, ids[0] as string[], ids[1] as string[]);
    let start = 0;
    while (start < a.length && start < b.length && same(a[start], b[start])) start++;
    let end = 0;
    while (end < a.length - start && end < b.length - start && same(a[a.length - 1 - end], b[b.length - 1 - end])) end++;
    for (let i = 0; i < start; i++) visit(old.children![i]!, now.children![i]!);
    for (let i = 1; i <= end; i++) visit(old.children![a.length - i]!, now.children![b.length - i]!);
    if (a.length === b.length && start + end === a.length - 1) visit(old.children![start]!, now.children![start]!);
    else if (start + end < Math.max(a.length, b.length)) gap(old, start, a.length - end);
  };
  const visitNodes = (old: Node, now: Node, ids: string[], wanted: string[]): void => {
    const common = wanted.filter((id) => ids.includes(id));
    const isMoved = !same(common, ids.filter((id) => wanted.includes(id)));
    if (isMoved) gap(old, 0, ids.length);
    ids.forEach((id, i) => (wanted.includes(id) ? visit(old.children![i]!, now.children![wanted.indexOf(id)]!) : gap(old, i, i + 1)));
    wanted.forEach((id, i) => {
      const previous = wanted.slice(0, i).reverse().find((other) => ids.includes(other));
      const at = previous === undefined ? 0 : ids.indexOf(previous) + 1;
      if (!ids.includes(id)) gap(old, at, at);
    });
  };
  visit(parseTree(before)!, parseTree(after)!);
  return oracle;
}

function checkPatch(before: string, value: Json): string {
  const after = patch(before, value);
  assert.deepStrictEqual(JSON.parse(after), value);
  assert.equal(patch(after, value), after);
  const { kept, touched } = compare(before, after);
  for (const [old, now] of kept) assert.equal(after.slice(now.offset, endOf(now)), before.slice(old.offset, endOf(old)));
  checkLines(before, after, touched);
  return after;
}

/** Fails if a line that no range touches is not in the result, or not in order. */
function checkLines(before: string, after: string, touched: [number, number][]): void {
  const lines = after.split('\n');
  let next = 0;
  let start = 0;
  for (const line of before.split('\n')) {
    const end = start + line.length;
    if (!touched.some(([from, to]) => from <= end && to >= start)) {
      const found = lines.indexOf(line, next);
      assert.ok(found >= 0, `the line ${JSON.stringify(line)} is not kept`);
      next = found + 1;
    }
    start = end + 1;
  }
}

function checkEdits(seed: number, text: string, edits: number): void {
  const random = randomOf(seed);
  const root = { value: JSON.parse(text) as Json };
  for (let i = 0; i < edits; i++) randomEdit(random, root, counter(`new${seed}-${i}-`));
  try {
    checkPatch(text, root.value);
  } catch (error) {
    console.log(`failed with seed ${seed}, text ${JSON.stringify(text).slice(0, 3000)}, value ${JSON.stringify(root.value).slice(0, 3000)}`);
    throw error;
  }
}

test('random edits of random documents give the value and keep the text of the rest', () => {
  for (let i = 0; i < rounds(4_000, 80_000); i++) {
    const random = randomOf(SEED + i);
    const text = randomText(random, randomValue(random, 5, counter('n')));
    checkEdits(SEED + i, text, random.pick([0, 1, 1, 1, 2, 5]));
  }
});

test('random edits of the files of the demo site and of the documentation do so too', () => {
  const texts = [...Object.values(DEMO).filter((text) => text.length < 10_000), ...examplesOf('authoring.md')];
  for (let i = 0; i < rounds(300, 20_000); i++) {
    const random = randomOf(SEED + i);
    const text = random.pick(texts);
    checkEdits(SEED + i, random.chance(0.2) ? text.replaceAll('\n', '\r\n') : text, random.pick([1, 1, 1, 2, 5]));
  }
});

test('the oracle sees a changed spelling, a lost line and lines in another order', () => {
  const before = '{\n  "a": 1.0,\n  "b": [\n    2\n  ],\n  "c": 3\n}';
  const wrong = [before.replace('1.0', '1'), before.replace('    2', '  2'), before.replace('\n  "c"', ' "c"')];
  for (const after of [before.replace('3', '4'), ...wrong]) {
    const { kept, touched } = compare(before, after);
    const check = () => {
      for (const [old, now] of kept) assert.equal(after.slice(now.offset, endOf(now)), before.slice(old.offset, endOf(old)));
      checkLines(before, after, touched);
    };
    if (wrong.includes(after)) assert.throws(check);
    else check();
  }
});
