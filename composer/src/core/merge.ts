import type { Json, JsonObject } from './json.js';
import { type Detached, MergeError, Moves, Tree, VERSIONS, type Versions } from './moves.js';
import { type Pair, ValueNumbers, commonPairs, entriesOf, idOf, isObject, memberOf, movedItems, pairChanged, token } from './sequence.js';

/** Items of a list in whose order both sides changed something. Beyond it the list is a conflict: the search compares all pairs. */
export const ORDER_ITEMS_MAX = 500;

/** Comparisons of items without IDs that both sides removed with new items, to find one that moved. Beyond it the list is a conflict. */
const MOVE_PAIRS_MAX = 100_000;

/**
 * A change of one side that contradicts one of the other. The value has `ours`, in which the nodes that a side moved are merged on their own. A
 * version that lacks the place has no member here.
 */
export interface Conflict {
  /**
   * - `changed`: both sides changed or added the value, in different ways.
   * - `removed`: one side removed the value and the other changed or moved it.
   * - `moved`: both sides moved the node to different places. `base`, `ours` and `theirs` are its pointers.
   * - `order`: both sides changed the order of the list, in different ways. `base`, `ours` and `theirs` are lists of the IDs.
   * - `file`: both sides changed, added or removed a file that is not merged. `base`, `ours` and `theirs` are texts.
   */
  kind: 'changed' | 'removed' | 'moved' | 'order' | 'file';
  /** The JSON pointer of the place in the merged value. An item that is not there has the pointer of its list and `/-`. */
  path: string;
  base?: Json;
  ours?: Json;
  theirs?: Json;
}

export interface Merged {
  value: Json;
  conflicts: Conflict[];
}

/** A place in the merged value: a path from the root, or from a node that moved. */
interface At {
  node?: string;
  path: string;
}

type Draft = Omit<Conflict, 'path'> & { at: At };
type Maybe = Json | undefined;

/**
 * Merges the changes of two versions of one file.
 *
 * - Objects are merged by member, and lists whose items all have different strings as `id` (or `key`) by this ID.
 * - Other lists are sequences. They are merged like the lines of a text: a change of one side applies unless the other side changed the same
 *   items or inserted at the same place. Then the whole list is a conflict.
 * - A node whose ID occurs once in each version is followed into other lists. So one side can move it and the other one change it.
 * - The order of two items is that of the side that changed it. Items that both sides insert at the same place of a list with IDs are both there.
 *
 * Throws a `MergeError` for a value that JSON cannot have, and for one or a result that is nested deeper than `NESTING_MAX`.
 */
export function merge(base: Json, ours: Json, theirs: Json): Merged {
  const numbers = new ValueNumbers((message, pointer) => {
    throw new MergeError(pointer === '' ? message : `${pointer}: ${message}`);
  });
  for (const value of [base, ours, theirs]) numbers.of(value);
  const moves = new Moves({ base, ours, theirs });
  let merged: Merged | undefined;
  while (!merged) merged = new Merger(numbers, moves).merge();
  return merged;
}

/** A merge with a given set of moves. */
class Merger {
  private readonly conflicts: Draft[] = [];
  private readonly detached: Detached;
  /** The nodes that moved, of each version. */
  private readonly nodes: Versions<Map<string, Json>>;

  constructor(
    private readonly numbers: ValueNumbers,
    private readonly moves: Moves,
  ) {
    this.detached = moves.detach();
    const nodesOf = (version: keyof Versions<Json>) => new Map([...this.detached.nodes].map(([id, node]) => [id, node[version]]));
    this.nodes = { base: nodesOf('base'), ours: nodesOf('ours'), theirs: nodesOf('theirs') };
  }

  /** Returns the result, or undefined if the moves of both sides contradict each other. Then it has changed them. */
  merge(): Merged | undefined {
    const { roots, nodes } = this.detached;
    const root = this.mergeValue(roots.base, roots.ours, roots.theirs, { path: '' })!;
    const merged = new Map<string, Json>();
    for (const [node, { base, ours, theirs }] of nodes) merged.set(node, this.mergeValue(base, ours, theirs, { node, path: '' })!);
    const tree = new Tree(merged);
    const value = tree.attach(root);
    const lost = [...nodes.keys()].filter((node) => tree.count(node) !== 1);
    if (lost.length > 0) {
      this.moves.giveUp(lost);
      return undefined;
    }
    this.numbers.of(value);
    const pointer = ({ node, path }: At) => (node === undefined ? '' : tree.pointer(node)) + path;
    const conflicts = this.conflicts.map(({ at, ...conflict }) => ({ ...this.restore(conflict), path: pointer(at) }));
    return { value, conflicts: [...this.moves.conflicts(value), ...conflicts].map(ordered) };
  }

  /** Puts the nodes that moved back into the values of a conflict. */
  private restore(conflict: Omit<Draft, 'at'>): Omit<Draft, 'at'> {
    const present = VERSIONS.filter((version) => conflict[version] !== undefined);
    const values = present.map((version) => [version, new Tree(this.nodes[version]).attach(conflict[version]!)]);
    return { ...conflict, ...Object.fromEntries(values) };
  }

  private mergeValue(base: Maybe, ours: Maybe, theirs: Maybe, at: At): Maybe {
    if (this.numbers.equal(ours, theirs) || this.numbers.equal(base, theirs)) return ours;
    if (this.numbers.equal(base, ours)) return theirs;
    if (isObject(base) && isObject(ours) && isObject(theirs)) return this.mergeObjects(base, ours, theirs, at);
    if (Array.isArray(base) && Array.isArray(ours) && Array.isArray(theirs)) return this.mergeLists(base, ours, theirs, at);
    this.add(ours === undefined || theirs === undefined ? 'removed' : 'changed', at, { base, ours, theirs });
    return ours;
  }

  private add(kind: Conflict['kind'], at: At, versions: Versions<Maybe>): void {
    const present = Object.entries(versions).filter(([, value]) => value !== undefined);
    this.conflicts.push({ kind, at, ...Object.fromEntries(present) });
  }

  private mergeObjects(base: JsonObject, ours: JsonObject, theirs: JsonObject, at: At): JsonObject {
    const [own, other] = [ours, theirs].map((object) => entriesOf(object).map(([name]) => name)) as [string[], string[]];
    const members = weave(own, other.filter((name) => !Object.hasOwn(ours, name)), other).map((name): [string, Maybe] => {
      const [b, o, t] = [base, ours, theirs].map((object) => memberOf(object, name));
      return [name, this.mergeValue(b, o, t, below(at, name))];
    });
    return Object.fromEntries(members.filter((member): member is [string, Json] => member[1] !== undefined));
  }

  private mergeLists(base: Json[], ours: Json[], theirs: Json[], at: At): Json[] {
    for (const name of ['id', 'key']) {
      const [b, o, t] = [base, ours, theirs].map((list) => itemsById(list, name));
      if (b && o && t) return this.mergeItems(b, o, t, at);
    }
    return this.mergeSequences(base, ours, theirs, at);
  }

  private mergeItems(base: Items, ours: Items, theirs: Items, at: At): Json[] {
    const [b, o, t] = [base, ours, theirs].map((items) => [...items.keys()]) as [string[], string[], string[]];
    const removed = new Set([...this.removedItems(base, ours, b, o, theirs), ...this.removedItems(base, theirs, b, t, ours)]);
    const isPresent = (id: string) => (ours.has(id) ? theirs.has(id) || !base.has(id) || removed.has(id) : !base.has(id));
    const order = this.mergeOrder(b, o.filter(isPresent), t.filter(isPresent), at);
    const place = new Map(order.map((id, i) => [id, i]));
    const versions = (id: string) => ({ base: base.get(id), ours: ours.get(id), theirs: theirs.get(id) });
    for (const id of removed) this.add('removed', below(at, place.get(id) ?? '-'), versions(id));
    return order.map((id, i) => {
      if (!ours.has(id) || !theirs.has(id)) return (ours.get(id) ?? theirs.get(id))!;
      return this.mergeValue(base.get(id), ours.get(id), theirs.get(id), below(at, i))!;
    });
  }

  /** Returns the items that one side changed or moved in the list, and the other one removed. */
  private removedItems(base: Items, side: Items, baseOrder: string[], order: string[], other: Items): string[] {
    const moved = movedItems(baseOrder, order);
    const isChanged = (id: string) => !this.numbers.equal(base.get(id), side.get(id)) || (moved.has(id) && !this.detached.nodes.has(id));
    return order.filter((id) => base.has(id) && !other.has(id) && isChanged(id));
  }

  /** Merges the order of the items that stay. */
  private mergeOrder(base: string[], ours: string[], theirs: string[], at: At): string[] {
    const [own, other] = [new Set(ours), new Set(theirs)];
    const [o, t] = [ours.filter((id) => other.has(id)), theirs.filter((id) => own.has(id))];
    const order = orderOfBoth(base, o, t);
    if (!order) this.add('order', at, { base, ours, theirs });
    const both = order ?? o;
    const known = new Set(both);
    const runs = [runsAfter(ours, known), runsAfter(theirs, known)];
    return [undefined, ...both].flatMap((id) => {
      const [first, second] = runs.map((run) => run.get(id) ?? []).sort((x, y) => (JSON.stringify(x) < JSON.stringify(y) ? -1 : 1));
      return [...(id === undefined ? [] : [id]), ...first!, ...second!];
    });
  }

  private mergeSequences(base: Json[], ours: Json[], theirs: Json[], at: At): Json[] {
    const start = this.conflicts.length;
    const [inOurs, inTheirs] = [new Map(this.pairs(base, ours)), new Map(this.pairs(base, theirs))];
    const gone = base.filter((_, i) => !inOurs.has(i) && !inTheirs.has(i));
    const isClear = !this.haveMoved(gone, without(ours, inOurs), without(theirs, inTheirs));
    const merged = isClear ? this.mergeChunks(base, ours, theirs, inOurs, inTheirs, at) : undefined;
    if (merged && this.hasRightCounts(base, ours, theirs, merged)) return merged;
    this.conflicts.length = start;
    this.add('changed', at, { base, ours, theirs });
    return ours;
  }

  /** Merges the items between those that both sides kept. Returns undefined if both sides changed the items between two of these. */
  private mergeChunks(base: Json[], ours: Json[], theirs: Json[], inOurs: Indexes, inTheirs: Indexes, at: At): Json[] | undefined {
    const result: Json[] = [];
    let [b, o, t] = [0, 0, 0];
    for (let i = 0; i <= base.length; i++) {
      const [j, k] = i < base.length ? [inOurs.get(i), inTheirs.get(i)] : [ours.length, theirs.length];
      if (j === undefined || k === undefined) continue;
      const chunk = this.mergeRuns(base.slice(b, i), ours.slice(o, j), theirs.slice(t, k));
      if (!chunk) return undefined;
      for (const item of chunk) result.push(item);
      if (i < base.length) result.push(this.mergeValue(base[i]!, ours[j]!, theirs[k]!, below(at, result.length))!);
      [b, o, t] = [i + 1, j + 1, k + 1];
    }
    return result;
  }

  /** Says whether one side may have moved and changed an item that the other side removed or moved: it has a similar new item. */
  private haveMoved(gone: Json[], newOurs: Json[], newTheirs: Json[]): boolean {
    const [own, other] = [newOurs, newTheirs].map((list) => new Set(list.map((item) => this.numbers.of(item)))) as [Set<number>, Set<number>];
    const added = [...newOurs.filter((item) => !other.has(this.numbers.of(item))), ...newTheirs.filter((item) => !own.has(this.numbers.of(item)))];
    if (gone.length * added.length > MOVE_PAIRS_MAX) return true;
    return gone.some((item) => added.some((candidate) => this.similarity(item, candidate) > 0));
  }

  /** Says whether each item of the base is as often in the result as it should be. An item that one side moved can be there again, or twice. */
  private hasRightCounts(...lists: [base: Json[], ours: Json[], theirs: Json[], merged: Json[]]): boolean {
    const counts = lists.map((list) => {
      const count = new Map<number, number>();
      for (const item of list) count.set(this.numbers.of(item), (count.get(this.numbers.of(item)) ?? 0) + 1);
      return count;
    });
    return [...counts[0]!.keys()].every((number) => {
      const [b, o, t, merged] = counts.map((count) => count.get(number) ?? 0);
      return merged === (b === o ? t : b === t || o === t ? o : undefined);
    });
  }

  private mergeRuns(base: Json[], ours: Json[], theirs: Json[]): Json[] | undefined {
    if (this.numbers.equal(ours, theirs) || this.numbers.equal(base, theirs)) return ours;
    return this.numbers.equal(base, ours) ? theirs : undefined;
  }

  /** Pairs the items of two sequences that are equal, and between them those that changed: with the same key, or with an equal member. */
  private pairs(base: Json[], side: Json[]): Pair[] {
    const [a, b] = [base, side].map((list) => list.map((item) => this.numbers.of(item))) as [number[], number[]];
    return pairChanged(commonPairs(a, b), [a.length, b.length], (i, j) => this.similarity(base[i]!, side[j]!));
  }

  private similarity(one: Json, other: Json): number {
    if (!isObject(one) || !isObject(other)) return 0;
    const [key, otherKey] = [keyOf(one), keyOf(other)];
    if (key !== undefined && otherKey !== undefined) return key === otherKey ? 1_000 : 0;
    return entriesOf(one).filter(([name, member]) => this.numbers.equal(memberOf(other, name), member)).length;
  }
}

type Items = Map<string, Json>;

/** The indexes of the items of a side by those of the items of the base. */
type Indexes = Map<number, number>;

/** Returns the items that do not correspond to an item of the base. */
function without(list: Json[], indexes: Indexes): Json[] {
  const known = new Set(indexes.values());
  return list.filter((_, i) => !known.has(i));
}

const below = (at: At, name: string | number): At => ({ ...at, path: at.path + token(name) });

/** Returns a conflict with its members in a fixed order. */
function ordered({ kind, path, base, ours, theirs }: Conflict): Conflict {
  const present = Object.entries({ base, ours, theirs }).filter(([, value]) => value !== undefined);
  return { kind, path, ...Object.fromEntries(present) };
}

/** Returns the name of an item of a sequence: its ID or key, or the key of its experiment. */
const keyOf = (item: Json): string | undefined => idOf(item) ?? idOf(item, 'key') ?? idOf(memberOf(item, 'experiment'), 'key');

/** Returns the items of a list by their ID, or undefined if not all have one of their own. */
function itemsById(list: Json[], name: string): Items | undefined {
  const items = new Map(list.map((item) => [idOf(item, name)!, item]));
  return list.every((item) => idOf(item, name) !== undefined) && items.size === list.length ? items : undefined;
}

/** Inserts keys into a list, each after the key that precedes it in its own list. */
function weave(list: string[], added: string[], order: string[]): string[] {
  if (added.length === 0) return list;
  const runs = runsAfter(order, new Set(list));
  return [undefined, ...list].flatMap((key) => [...(key === undefined ? [] : [key]), ...(runs.get(key) ?? [])]);
}

/** Returns the runs of other IDs by the known ID before them. */
function runsAfter(order: string[], known: Set<string>): Map<string | undefined, string[]> {
  const runs = new Map<string | undefined, string[]>();
  let after: string | undefined;
  for (const id of order) {
    if (known.has(id)) after = id;
    else if (runs.has(after)) runs.get(after)!.push(id);
    else runs.set(after, [id]);
  }
  return runs;
}

/**
 * Merges two orders of the same items. Each pair has the order of the side that changed it. Returns undefined if these orders are circular, or
 * if both sides moved an item to different places.
 */
function orderOfBoth(base: string[], ours: string[], theirs: string[]): string[] | undefined {
  const common = new Set(ours);
  const old = base.filter((id) => common.has(id));
  const isSame = (a: string[], b: string[]) => a.length === b.length && a.every((id, i) => id === b[i]);
  if (isSame(ours, theirs) || isSame(old, theirs)) return ours;
  if (isSame(old, ours)) return theirs;
  if (ours.length > ORDER_ITEMS_MAX || moveApart(old, ours, theirs)) return undefined;
  const order: string[] = [];
  const isFirst = comparePairs(old, ours, theirs);
  for (const id of ours) {
    const before = ours.map((other) => (other === id ? false : isFirst(other, id)));
    if (before.includes(undefined)) return undefined;
    order[before.filter(Boolean).length] = id;
  }
  return Object.keys(order).length === ours.length ? order : undefined;
}

/** Returns a function that says whether one item is before another one, or undefined for new items that both sides order differently. */
function comparePairs(...lists: [base: string[], ours: string[], theirs: string[]]): (x: string, y: string) => boolean | undefined {
  const places = lists.map((list) => new Map(list.map((id, i) => [id, i])));
  return (x, y) => {
    const [b, o, t] = places.map((place) => (place.has(x) && place.has(y) ? place.get(x)! < place.get(y)! : undefined));
    if (o === t) return o;
    return b === undefined ? undefined : !b;
  };
}

/** Says whether both sides moved an item to different places among the items that no side moved. */
function moveApart(base: string[], ours: string[], theirs: string[]): boolean {
  const [byOurs, byTheirs] = [movedItems(base, ours), movedItems(base, theirs)];
  const isFixed = (id: string) => !byOurs.has(id) && !byTheirs.has(id);
  const fixedBefore = (order: string[], id: string) => order.slice(0, order.indexOf(id)).filter(isFixed).length;
  return [...byOurs].some((id) => byTheirs.has(id) && fixedBefore(ours, id) !== fixedBefore(theirs, id));
}
