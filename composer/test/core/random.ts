import type { Json, JsonObject } from '../../src/core/index.js';

/** A generator of random numbers with a seed (mulberry32). */
export interface Random {
  below(limit: number): number;
  chance(share: number): boolean;
  pick<T>(list: readonly T[]): T;
}

export function randomOf(seed: number): Random {
  let state = seed >>> 0;
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const below = (limit: number) => Math.floor(next() * limit);
  return { below, chance: (share) => next() < share, pick: (list) => list[below(list.length)]! };
}

/** The seed of a run. `SEED` in the environment repeats one. It is printed. */
export const SEED = Number(process.env['SEED'] ?? Date.now() % 1_000_000_000);
console.log(`SEED=${SEED}`);

/** The number of rounds: the short form by default, the long one with `PARALLAX_LONG`. */
export const rounds = (short: number, long: number): number => (process.env['PARALLAX_LONG'] ? long : short);

const NAMES = ['id', 'type', 'props', 'zones', 'a', 'b', '7', '__proto__', 'constructor', 'x/y~', 'Größe', ''];
const STRINGS = ['', 'a', 'hero', '10\u00a0%', 'a "word" \\ /', '\ud800', '\ud83d\ude00', '\n\t\u2028', 'x'.repeat(90)];
const NUMBERS = [0, -0, 1, 1.5, 6490, -7, 1e21, 5e-324, 12345678901234567890, 2 ** 53];

export function randomScalar(random: Random): Json {
  return random.pick<() => Json>([() => random.pick(STRINGS), () => random.pick(NUMBERS), () => random.chance(0.5), () => null, () => random.below(4)])();
}

/** Returns a value with objects, lists without IDs, and lists of nodes whose IDs occur once, if `ids` counts up. */
export function randomValue(random: Random, depth: number, ids: () => string): Json {
  const kind = depth > 0 ? random.below(5) : 4;
  const inner = () => randomValue(random, depth - 1, ids);
  const many = random.chance(0.05) ? 12 : 4;
  if (kind === 0) return Array.from({ length: random.below(many) }, inner);
  if (kind === 1) return Array.from({ length: random.below(many) }, () => randomNode(random, depth - 1, ids));
  if (kind < 4) return Object.fromEntries(Array.from({ length: random.below(many) }, () => [random.pick(NAMES), inner()]));
  return randomScalar(random);
}

export function randomNode(random: Random, depth: number, ids: () => string): Json {
  const node: JsonObject = { id: ids(), type: random.pick(['Hero', 'Text']), props: { title: randomScalar(random) } };
  if (depth > 0 && random.chance(0.5)) node['zones'] = { left: Array.from({ length: random.below(3) }, () => randomNode(random, depth - 1, ids)) };
  if (random.chance(0.2)) node['query'] = randomValue(random, Math.max(0, depth - 1), ids);
  return node;
}

export const isList = (value: Json): value is Json[] => Array.isArray(value);
export const isMap = (value: Json | undefined): value is JsonObject => typeof value === 'object' && value !== null && !Array.isArray(value);
export const copyOf = <T extends Json>(value: T): T => structuredClone(value);

/** Returns all objects and lists of a value. */
export function containersOf(value: Json): (Json[] | JsonObject)[] {
  if (typeof value !== 'object' || value === null) return [];
  return [value, ...Object.values(value).flatMap(containersOf)];
}

/** Replaces the members of an object. Each of them becomes an own member, also `__proto__`. */
export function setEntries(object: JsonObject, entries: [string, Json][]): void {
  for (const name of Object.keys(object)) delete object[name];
  for (const [name, value] of entries) Object.defineProperty(object, name, { value, writable: true, enumerable: true, configurable: true });
}

/** Changes a value once, in place: sets, inserts, removes, renames, copies or moves a member or an item. */
export function randomEdit(random: Random, root: { value: Json }, ids: () => string): void {
  const containers = containersOf(root.value);
  if (containers.length === 0 || random.chance(0.01)) {
    root.value = randomValue(random, 3, ids);
    return;
  }
  const container = random.pick(containers);
  if (isList(container)) editList(random, root.value, container, ids);
  else editObject(random, container, ids);
}

const isNodes = (list: Json[]): boolean => list.every((item) => isMap(item) && typeof item['id'] === 'string');

function editList(random: Random, root: Json, list: Json[], ids: () => string): void {
  const newItem = () => (isNodes(list) && random.chance(0.9) ? randomNode(random, 1, ids) : randomValue(random, 2, ids));
  const at = random.below(list.length + 1);
  const from = random.below(Math.max(1, list.length));
  const kind = random.below(6);
  if (list.length === 0 || kind === 0) list.splice(at, 0, newItem());
  else if (kind === 1) list.splice(from, 1);
  else if (kind === 2) list[from] = newItem();
  else if (kind === 3) list.splice(random.below(list.length), 0, ...list.splice(from, 1));
  else if (kind === 4) moveItem(random, root, list, from);
  else list.splice(at, 0, withNewIds(copyOf(list[from]!), ids));
}

/** Moves an item to another list, which is not inside it. */
export function moveItem(random: Random, root: Json, list: Json[], from: number): void {
  const inside = new Set<Json>(containersOf(list[from]!));
  const others = containersOf(root).filter((other): other is Json[] => isList(other) && !inside.has(other) && (isNodes(other) || !isNodes(list)));
  if (others.length === 0) return;
  const target = random.pick(others);
  const [item] = list.splice(from, 1);
  target.splice(random.below(target.length + 1), 0, item!);
}

function withNewIds(value: Json, ids: () => string): Json {
  for (const object of containersOf(value)) if (isMap(object) && typeof object['id'] === 'string') object['id'] = ids();
  return value;
}

function editObject(random: Random, object: JsonObject, ids: () => string): void {
  const entries = Object.entries(object).map(([name, value]): [string, Json] => [name, value]);
  const isNode = typeof object['id'] === 'string';
  const at = random.below(Math.max(1, entries.length));
  const name = random.pick(NAMES.filter((other) => !Object.hasOwn(object, other) && (!isNode || other !== 'id')));
  const kind = random.below(5);
  if (entries.length === 0 || kind === 0) entries.splice(random.below(entries.length + 1), 0, [name, randomValue(random, 2, ids)]);
  else if (isNode && entries[at]![0] === 'id') return;
  else if (kind === 1) entries.splice(at, 1);
  else if (kind === 2) entries[at] = [name, entries[at]![1]];
  else entries[at] = [entries[at]![0], random.chance(0.7) ? randomScalar(random) : randomValue(random, 2, ids)];
  setEntries(object, entries);
}

export function counter(prefix: string): () => string {
  let next = 0;
  return () => `${prefix}${next++}`;
}

/** Writes a value with random white space, spellings and doubled names. */
export function randomText(random: Random, value: Json): string {
  const style = random.below(4);
  if (style === 0) return JSON.stringify(value, null, random.pick([0, 1, 2, '\t'])).replaceAll('\n', random.pick(['\n', '\r\n']));
  const space = () => random.pick(style === 1 ? ['', ' ', '\n', '\r\n\t', '\n\n  ', '\r'] : ['', '', '', ' ', '\n  ']);
  const write = (child: Json): string => {
    if (isList(child)) return `[${space()}${child.map((item) => write(item) + space()).join(`,${space()}`)}]`;
    if (!isMap(child)) return spelling(random, child);
    const members = Object.entries(child).map(([name, member]) => `${spelling(random, name)}${space()}:${space()}${write(member)}`);
    const doubled = Object.keys(child).filter(() => random.chance(0.02)).map((name) => `${JSON.stringify(name)}: ${random.below(9)}`);
    return `{${space()}${[...doubled, ...members].map((member) => member + space()).join(`,${space()}`)}}`;
  };
  return space() + write(value) + space();
}

function spelling(random: Random, scalar: Json): string {
  const text = Object.is(scalar, -0) ? '-0' : JSON.stringify(scalar);
  if (typeof scalar === 'number' && Number.isSafeInteger(scalar) && random.chance(0.3)) return `${text}${random.pick(['.0', '.00', 'e0', 'E+0'])}`;
  if (typeof scalar === 'string' && random.chance(0.3)) return text.replace('a', '\\u0061').replace('/', '\\/').replace('\u00a0', '\\u00a0');
  return text;
}
