import type { Json, JsonObject } from './json.js';

/**
 * Nesting depth of arrays and objects in one file, the limit of `compile` (`SOURCE_NESTING_MAX`). It bounds every recursion over a value. A
 * deeper text or value is refused.
 */
export const NESTING_MAX = 127;

/**
 * Cells of one alignment table, which needs 4 bytes each. Larger arrays are aligned by a method that needs less memory and finds a common
 * subsequence that may not be the longest.
 */
const ALIGNMENT_CELLS_MAX = 1_000_000;

/** Comparisons of items that changed between two equal items. Beyond it, changed items are paired in their order. */
const PAIRING_CELLS_MAX = 10_000;

/** Refuses a value. The pointer is that of its place. */
export type Refuse = (message: string, pointer: string) => never;

/** A pair of the indexes of two items that correspond. */
export type Pair = [number, number];

/** Returns the reference token of JSON Pointer (RFC 6901) for a member name or an index, with its slash. */
export const token = (name: string | number): string => `/${String(name).replaceAll('~', '~0').replaceAll('/', '~1')}`;

export function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Returns the own member, also one that is named `__proto__`. */
export function memberOf(value: Json | undefined, name: string): Json | undefined {
  return isObject(value) && Object.hasOwn(value, name) ? value[name] : undefined;
}

/** Returns the members that JSON can have. A member that is undefined is absent, as for `JSON.stringify`. */
export const entriesOf = (value: JsonObject): [string, Json][] => Object.entries(value).filter(([, member]) => member !== undefined);

/** Returns the ID of an item: a string as the member with this name. */
export function idOf(item: Json | undefined, name = 'id'): string | undefined {
  const id = memberOf(item, name);
  return typeof id === 'string' ? id : undefined;
}

/** The numbers of values. Two values have the same number exactly if they are equal. The order of members does not count, -0 is not 0. */
export class ValueNumbers {
  private readonly numbers = new Map<string, number>();
  private readonly seen = new WeakMap<object, number>();
  private readonly seenWithoutIds = new WeakMap<object, number>();

  constructor(private readonly refuse: Refuse) {}

  of(value: Json): number {
    return this.number(value, this.seen, true, 0, '');
  }

  /** Returns the number of the value without the members `id` of its objects. */
  withoutIds(value: Json): number {
    return this.number(value, this.seenWithoutIds, false, 0, '');
  }

  equal(one: Json | undefined, other: Json | undefined): boolean {
    if (one === undefined || other === undefined) return one === other;
    return Object.is(one, other) || this.of(one) === this.of(other);
  }

  private number(value: Json, seen: WeakMap<object, number>, ids: boolean, depth: number, pointer: string): number {
    if (typeof value !== 'object' || value === null) return this.intern(this.scalarKey(value, pointer));
    if (depth >= NESTING_MAX) this.refuse(`The value is nested deeper than ${NESTING_MAX} levels.`, pointer);
    const known = seen.get(value);
    if (known !== undefined) return known;
    const inner = (child: Json, name: string | number) => this.number(child, seen, ids, depth + 1, pointer + token(name));
    const number = this.intern(Array.isArray(value) ? `[${Array.from(value, inner)}` : objectKey(value, ids, inner));
    seen.set(value, number);
    return number;
  }

  private scalarKey(value: null | boolean | number | string, pointer: string): string {
    if (typeof value === 'string') return `"${value}`;
    if (typeof value === 'number' && !Number.isNaN(value)) return Object.is(value, -0) ? '-0' : String(value);
    if (value === null || typeof value === 'boolean') return String(value);
    return this.refuse(`JSON has no value for ${typeof value === 'number' ? 'NaN' : `a value of the type ${typeof value}`}.`, pointer);
  }

  private intern(key: string): number {
    const number = this.numbers.get(key) ?? this.numbers.size;
    if (number === this.numbers.size) this.numbers.set(key, number);
    return number;
  }
}

function objectKey(value: JsonObject, ids: boolean, inner: (child: Json, name: string) => number): string {
  const members = entriesOf(value).filter(([name, member]) => ids || name !== 'id' || typeof member !== 'string');
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${inner(member, name)}`).sort()}`;
}

/** Returns the pairs of a common subsequence of two lists, in order. It is the longest one unless the lists are very large. */
export function commonPairs(a: number[], b: number[]): Pair[] {
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
  const prefix = Array.from({ length: start }, (_, i): Pair => [i, i]);
  const suffix = Array.from({ length: end }, (_, i): Pair => [a.length - end + i, b.length - end + i]);
  const [restA, restB] = [a.slice(start, a.length - end), b.slice(start, b.length - end)];
  const isSmall = (restA.length + 1) * (restB.length + 1) <= ALIGNMENT_CELLS_MAX;
  const middle = isSmall ? bestPairs(restA.length, restB.length, (i, j) => +(restA[i] === restB[j])) : pairsByOccurrence(restA, restB);
  return [...prefix, ...middle.map(([i, j]): Pair => [i + start, j + start]), ...suffix];
}

/** Returns the pairs in increasing order with the highest sum of scores. A pair with the score 0 is none. */
function bestPairs(rows: number, columns: number, score: (i: number, j: number) => number): Pair[] {
  if (rows === 0 || columns === 0) return [];
  const width = columns + 1;
  const best = new Uint32Array((rows + 1) * width);
  const scores = new Uint32Array(rows * columns);
  for (let i = rows - 1; i >= 0; i--) {
    for (let j = columns - 1; j >= 0; j--) {
      const own = (scores[i * columns + j] = score(i, j));
      const paired = own > 0 ? best[(i + 1) * width + j + 1]! + own : 0;
      best[i * width + j] = Math.max(paired, best[(i + 1) * width + j]!, best[i * width + j + 1]!);
    }
  }
  const pairs: Pair[] = [];
  for (let i = 0, j = 0; i < rows && j < columns; ) {
    const own = scores[i * columns + j]!;
    const here = best[i * width + j]!;
    if (own > 0 && here === best[(i + 1) * width + j + 1]! + own) pairs.push([i++, j++]);
    else if (here === best[(i + 1) * width + j]!) i++;
    else j++;
  }
  return pairs;
}

/** Pairs the first occurrence of a value with the first one of the other list, and so on, and keeps the pairs that are in order. */
function pairsByOccurrence(a: number[], b: number[]): Pair[] {
  const places = new Map<number, number[]>();
  for (let i = a.length - 1; i >= 0; i--) {
    const list = places.get(a[i]!);
    if (list) list.push(i);
    else places.set(a[i]!, [i]);
  }
  const pairs = b.map((value, j): Pair => [places.get(value)?.pop() ?? -1, j]).filter(([i]) => i >= 0);
  return longestIncreasing(pairs.map(([i]) => i)).map((at) => pairs[at]!);
}

/** Returns the indexes of a longest increasing subsequence. */
export function longestIncreasing(values: number[]): number[] {
  const ends: number[] = [];
  const before: number[] = [];
  values.forEach((value, i) => {
    let low = 0;
    for (let high = ends.length; low < high; ) {
      const middle = (low + high) >> 1;
      if (values[ends[middle]!]! < value) low = middle + 1;
      else high = middle;
    }
    before[i] = low > 0 ? ends[low - 1]! : -1;
    ends[low] = i;
  });
  const result: number[] = [];
  for (let at = ends.length > 0 ? ends[ends.length - 1]! : -1; at >= 0; at = before[at]!) result.push(at);
  return result.reverse();
}

/** Returns the IDs of the second list that are out of the order of the first one: those that are in no longest sequence of the same order. */
export function movedItems(from: string[], to: string[]): Set<string> {
  const places = new Map(from.map((id, i) => [id, i]));
  const common = to.filter((id) => places.has(id));
  const fixed = new Set(longestIncreasing(common.map((id) => places.get(id)!)));
  return new Set(common.filter((_, i) => !fixed.has(i)));
}

/** Adds pairs of changed items to the pairs of equal items: between two of these, the items with the highest scores correspond. */
export function pairChanged(pairs: Pair[], lengths: Pair, score: (i: number, j: number) => number): Pair[] {
  const result: Pair[] = [];
  let [nextA, nextB] = [0, 0];
  for (const [endA, endB] of [...pairs, lengths]) {
    const [startA, startB, rows, columns] = [nextA, nextB, endA - nextA, endB - nextB];
    const scoreHere = (i: number, j: number) => score(startA + i, startB + j);
    const found = rows * columns <= PAIRING_CELLS_MAX ? bestPairs(rows, columns, scoreHere) : pairsInOrder(Math.min(rows, columns), scoreHere);
    result.push(...found.map(([i, j]): Pair => [startA + i, startB + j]));
    if (endA < lengths[0] || endB < lengths[1]) result.push([endA, endB]);
    [nextA, nextB] = [endA + 1, endB + 1];
  }
  return result;
}

function pairsInOrder(count: number, score: (i: number, j: number) => number): Pair[] {
  return Array.from({ length: count }, (_, i): Pair => [i, i]).filter(([i]) => score(i, i) > 0);
}
