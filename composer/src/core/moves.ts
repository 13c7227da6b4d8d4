import type { Json } from './json.js';
import type { Conflict } from './merge.js';
import { NESTING_MAX, entriesOf, idOf, memberOf, movedItems, token } from './sequence.js';

export const VERSIONS = ['base', 'ours', 'theirs'] as const;
type Version = (typeof VERSIONS)[number];
export type Versions<T> = { [version in Version]: T };

/** A value that cannot be merged. */
export class MergeError extends Error {
  override readonly name = 'MergeError';
}

const refuseDepth = (depth: number): void => {
  if (depth > NESTING_MAX) throw new MergeError(`The merged value is nested deeper than ${NESTING_MAX} levels.`);
};

/** A list of nodes. Its address names it by the nearest node around it, the owner, so that a list moves with its node. */
interface List {
  items: Json[];
  pointer: string;
  owner?: string;
}

/** The lists of a version by their addresses, and its nodes by their IDs. */
interface Index {
  lists: Map<string, List>;
  nodes: Map<string, { address: string; pointer: string }>;
}

/** Versions in which each node that moved is replaced by `{id}`, and those nodes. */
export interface Detached {
  roots: Versions<Json>;
  nodes: Map<string, Versions<Json>>;
}

/** The nodes that one side moved to another list. Moves of both sides that contradict each other are undone in `theirs`. */
export class Moves {
  private readonly values: Versions<Json>;
  private readonly indexes: Versions<Index>;
  /** The IDs that a version has more than once, or in a list where not all items have an ID. */
  private readonly ambiguous: Set<string>;
  /** The nodes that are not followed: for the merge, they are removed from one list and inserted into another one. */
  private readonly unfollowed = new Set<string>();
  /** Nodes of `theirs` that are in no list, because the list in which `base` has them is gone. */
  private readonly unplaced: Json[] = [];
  private readonly found = new Map<string, Versions<string | undefined>>();

  constructor(private readonly versions: Versions<Json>) {
    this.values = { ...versions, theirs: copyLists(versions.theirs) };
    this.ambiguous = new Set(VERSIONS.flatMap((version) => [...ambiguousIds(this.values[version])]));
    const indexes = VERSIONS.map((version) => [version, indexOf(this.values[version], this.ambiguous)]);
    this.indexes = Object.fromEntries(indexes) as Versions<Index>;
    this.undoContradictions();
  }

  /** Takes the nodes that moved out of the versions. */
  detach(): Detached {
    const isMoved = (id: string) => this.found.has(id) || this.isMoved('ours', id) || this.isMoved('theirs', id);
    const isDetached = (id: string) => !this.unfollowed.has(id) && this.isInAll(id) && isMoved(id);
    const nodes = new Map([...this.indexes.base.nodes.keys()].filter(isDetached).map((id) => [id, {} as Versions<Json>]));
    const from = (value: Json, version: Version) => (nodes.size === 0 ? value : detachFrom(value, version, nodes, 0));
    for (const node of this.unplaced) from([node], 'theirs');
    const { base, ours, theirs } = this.values;
    return { roots: { base: from(base, 'base'), ours: from(ours, 'ours'), theirs: from(theirs, 'theirs') }, nodes };
  }

  /** Undoes moves of `theirs` after which nodes are in no list, or in two. */
  giveUp(lost: string[]): void {
    const byTheirs = lost.filter((id) => this.isMoved('theirs', id));
    for (const id of byTheirs) this.undo(id);
    if (byTheirs.length === 0) for (const id of lost) this.unfollowed.add(id);
  }

  /** Returns the conflicts, with the places of the nodes in the merged value. */
  conflicts(value: Json): Conflict[] {
    if (this.found.size === 0) return [];
    const { nodes, lists } = indexOf(value, this.ambiguous);
    return [...this.found].map(([id, pointers]) => {
      const list = lists.get(this.indexes.base.nodes.get(id)!.address);
      const path = nodes.get(id)?.pointer ?? (list ? `${list.pointer}/-` : '');
      if (pointers.ours !== undefined && pointers.theirs !== undefined) return { kind: 'moved', path, ...pointers };
      const values = VERSIONS.map((version) => [version, valueAt(this.versions[version], pointers[version])]);
      return { kind: 'removed', path, ...Object.fromEntries(values) };
    });
  }

  private isInAll(id: string): boolean {
    return VERSIONS.every((version) => this.indexes[version].nodes.has(id));
  }

  private isMoved(version: 'ours' | 'theirs', id: string): boolean {
    const [old, now] = [this.indexes.base, this.indexes[version]].map((index) => index.nodes.get(id));
    return old !== undefined && now !== undefined && old.address !== now.address;
  }

  private undoContradictions(): void {
    const { base, ours, theirs } = this.indexes;
    const isOutOfOrder = { ours: this.outOfOrder(ours), theirs: this.outOfOrder(theirs) };
    for (const [id, { address }] of base.nodes) {
      const [own, other] = [this.isMoved('ours', id), this.isMoved('theirs', id)];
      if (!own && !other) continue;
      const byOurs = own || !ours.nodes.has(id) || isOutOfOrder.ours(address, id);
      const byTheirs = other || !theirs.nodes.has(id) || isOutOfOrder.theirs(address, id);
      const isSame = ours.nodes.get(id)?.address === theirs.nodes.get(id)?.address;
      if (!byOurs || !byTheirs || isSame) continue;
      this.note(id);
      if (other) this.undo(id);
    }
  }

  /** Returns a function that says whether a node has another place in its old list. */
  private outOfOrder(side: Index): (address: string, id: string) => boolean {
    const known = new Map<string, Set<string>>();
    return (address, id) => {
      const [from, to] = [this.indexes.base, side].map((index) => index.lists.get(address)?.items.map((item) => idOf(item)!) ?? []);
      if (!known.has(address)) known.set(address, movedItems(from!, to!));
      return known.get(address)!.has(id);
    };
  }

  private note(id: string): void {
    const pointers = VERSIONS.map((version) => [version, this.indexes[version].nodes.get(id)?.pointer]);
    if (!this.found.has(id)) this.found.set(id, Object.fromEntries(pointers) as Versions<string | undefined>);
  }

  /** Moves a node of `theirs` back into its list in `base`, if `theirs` has that list outside the node. */
  private undo(id: string): void {
    this.note(id);
    const { base, theirs } = this.indexes;
    const { address } = base.nodes.get(id)!;
    const place = theirs.nodes.get(id)!;
    const { items } = theirs.lists.get(place.address)!;
    const [node] = items.splice(items.findIndex((item) => idOf(item) === id), 1);
    theirs.nodes.set(id, { ...place, address });
    const target = theirs.lists.get(address);
    if (!target || this.isInside(target, id)) {
      this.unplaced.push(node!);
      return;
    }
    const order = base.lists.get(address)!.items.map((item) => idOf(item)!);
    const before = new Set(order.slice(0, order.indexOf(id)));
    const last = target.items.map((item) => before.has(idOf(item)!)).lastIndexOf(true);
    target.items.splice(last + 1, 0, node!);
  }

  /** Says whether a list of `theirs` is inside a node. */
  private isInside(list: List, id: string): boolean {
    const { lists, nodes } = this.indexes.theirs;
    let { owner } = list;
    while (owner !== undefined && owner !== id) owner = lists.get(nodes.get(owner)!.address)?.owner;
    return owner === id;
  }
}

/** The values of detached nodes, to put them back. */
export class Tree {
  private readonly counts = new Map<string, number>();
  private readonly pointers = new Map<string, string>();

  constructor(private readonly nodes: Map<string, Json>) {}

  /** Returns a value with its nodes. */
  attach(value: Json, pointer = '', depth = 0): Json {
    if (typeof value !== 'object' || value === null) return value;
    refuseDepth(depth + 1);
    const inner = (child: Json, name: string | number) => this.attach(child, pointer + token(name), depth + 1);
    if (!Array.isArray(value)) return Object.fromEntries(entriesOf(value).map(([name, member]) => [name, inner(member, name)]));
    return value.map((item, i) => inner(this.nodeOf(item, pointer + token(i)), i));
  }

  count(id: string): number {
    return this.counts.get(id) ?? 0;
  }

  pointer(id: string): string {
    return this.pointers.get(id)!;
  }

  /** Returns the node of an `{id}`, at its first place. */
  private nodeOf(item: Json, pointer: string): Json {
    const id = idOf(item);
    const node = id === undefined ? undefined : this.nodes.get(id);
    if (id === undefined || node === undefined) return item;
    const count = this.count(id) + 1;
    this.counts.set(id, count);
    if (count > 1) return item;
    this.pointers.set(id, pointer);
    return node;
  }
}

/** Returns the value at a pointer. */
function valueAt(value: Json, pointer: string | undefined): Json | undefined {
  const names = pointer?.split('/').slice(1).map((name) => name.replaceAll('~1', '/').replaceAll('~0', '~'));
  return names?.reduce((at: Json | undefined, name) => (Array.isArray(at) ? at[Number(name)] : memberOf(at, name)), value);
}

/** Copies a value, so that its lists can be changed. */
function copyLists(value: Json): Json {
  if (typeof value !== 'object' || value === null) return value;
  return Array.isArray(value) ? value.map(copyLists) : Object.fromEntries(entriesOf(value).map(([name, member]) => [name, copyLists(member)]));
}

function detachFrom(value: Json, version: Version, nodes: Map<string, Versions<Json>>, depth: number): Json {
  if (typeof value !== 'object' || value === null) return value;
  refuseDepth(depth + 1);
  const inner = (child: Json) => detachFrom(child, version, nodes, depth + 1);
  if (!Array.isArray(value)) return Object.fromEntries(entriesOf(value).map(([name, member]) => [name, inner(member)]));
  return value.map((item) => {
    const id = idOf(item);
    const node = id === undefined ? undefined : nodes.get(id);
    if (id === undefined || node === undefined) return inner(item);
    node[version] = inner(item);
    return { id };
  });
}

/** Says whether all items of a list have an ID of their own. */
function areNodes(list: Json[]): boolean {
  const ids = new Set(list.map((item) => idOf(item)));
  return !ids.has(undefined) && ids.size === list.length;
}

/** Returns the IDs of items that occur twice, or in or below a list of which not all items have an ID. */
function ambiguousIds(value: Json): Set<string> {
  const [seen, ambiguous] = [new Set<string>(), new Set<string>()];
  const visit = (child: Json, isInSequence: boolean): void => {
    if (typeof child !== 'object' || child === null) return;
    const isSequence = isInSequence || (Array.isArray(child) && !areNodes(child));
    for (const item of Array.isArray(child) ? child : entriesOf(child).map(([, member]) => member)) {
      const id = Array.isArray(child) ? idOf(item) : undefined;
      if (id !== undefined && (isSequence || seen.has(id))) ambiguous.add(id);
      if (id !== undefined) seen.add(id);
      visit(item, isSequence);
    }
  };
  visit(value, false);
  return ambiguous;
}

/** Finds the lists of nodes and the nodes that are followed. */
function indexOf(root: Json, ambiguous: Set<string>): Index {
  const index: Index = { lists: new Map(), nodes: new Map() };
  const visit = (value: Json, address: string, pointer: string, owner?: string): void => {
    if (typeof value !== 'object' || value === null) return;
    if (!Array.isArray(value)) {
      for (const [name, member] of entriesOf(value)) visit(member, address + token(name), pointer + token(name), owner);
      return;
    }
    if (!areNodes(value)) return;
    index.lists.set(address, { items: value, pointer, owner });
    value.forEach((item, i) => {
      const id = idOf(item)!;
      const isFollowed = !ambiguous.has(id);
      if (isFollowed) index.nodes.set(id, { address, pointer: pointer + token(i) });
      const inside = `#${token(id)}`;
      visit(item, isFollowed ? inside : address + inside, pointer + token(i), isFollowed ? id : owner);
    });
  };
  visit(root, '', '');
  return index;
}
