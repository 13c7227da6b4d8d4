import type { Json, JsonObject } from './json.js';
import { type Pair, ValueNumbers, commonPairs, entriesOf, idOf, isObject, longestIncreasing, memberOf, pairChanged } from './sequence.js';
import { Lines, type Part, PatchError, type Source, leadingSpace, readSource } from './source.js';
import { LINE_COLUMNS_MAX, type Style, gapsOf, isComposite, styleOf } from './style.js';

/** A place in the result. */
interface At {
  column: number;
  /** The indentation of the line. */
  indent: string;
  /** True if the line has only white space so far. */
  isBlank: boolean;
  /** The change of the indentation of copied lines. */
  shift: { from: string; to: string };
}

/** A member or an item of the result. */
interface Slot {
  name?: string;
  value: Json;
  /** A text that the value had, here or elsewhere. Without it the value is new. */
  source?: Source;
  /** Of a member or item that was in the same object or array: its part there, and the index of the part. */
  part?: Part;
  from?: number;
  /** True for a part that keeps its order among the others. */
  isFixed: boolean;
}

/** The white space before a part, and between it and the next comma or bracket. */
interface Gap {
  lead: string;
  trail: string;
}

/** The layout of a new value: on one line, in lines, or on one line if it fits. */
type Layout = 'line' | 'lines' | 'either';

/**
 * Returns the text with this value. It keeps the text of all values, members and items that are the same, also of those that moved.
 *
 * - Members keep their order in the text. A new member is after the member that precedes it in `value`.
 * - Items that all have different strings as `id` correspond by it. Other items correspond by a longest common subsequence of equal values.
 * - Of a member name that is in an object twice, the last value counts, as for `JSON.parse`. It is changed, and the others stay as they are.
 *   If `value` lacks the name, all of them are removed, so that no hidden value appears.
 * - A new number beyond 2^53 is written as the text has it elsewhere.
 * - A member that is undefined is absent.
 *
 * Throws a `PatchError` for a text that is no JSON, a text or value nested deeper than `NESTING_MAX`, and a value that JSON cannot have.
 */
export function patch(text: string, value: Json): string {
  const root = readSource(text);
  const patcher = new Patcher(text, root, value);
  return text.slice(0, root.start) + patcher.write(root, value, START) + text.slice(root.end);
}

const START: At = { column: 0, indent: '', isBlank: true, shift: { from: '', to: '' } };

class Patcher {
  private readonly numbers = new ValueNumbers((message, pointer) => {
    throw new PatchError(message, { pointer });
  });
  private readonly lines: Lines;
  private readonly style: Style;
  private readonly pool: Pool;

  constructor(
    private readonly text: string,
    root: Source,
    value: Json,
  ) {
    this.numbers.of(value);
    this.lines = new Lines(text);
    this.style = styleOf(text, root, this.lines);
    this.pool = new Pool(text, this.numbers, root);
  }

  /** Returns the text of a value that was `source`. */
  write(source: Source, value: Json, at: At): string {
    if (this.numbers.equal(source.value, value)) return shifted(this.text.slice(source.start, source.end), at);
    if (source.parts.length > 0 && isComposite(value) && Array.isArray(source.value) === Array.isArray(value)) {
      const slots = Array.isArray(value) ? this.slotsOfArray(source, value) : this.slotsOfObject(source, value as JsonObject);
      if (slots.length > 0) return this.writeSlots(source, slots, at);
    }
    if (typeof source.value === 'string' && typeof value === 'string') return writeString(this.text.slice(source.start, source.end), value);
    return this.writeNew(value, at);
  }

  private slotsOfObject(source: Source, value: JsonObject): Slot[] {
    const entries = entriesOf(value);
    const names = new Map(entries);
    const last = new Map(source.parts.map(({ name }, from) => [name!, from]));
    const added = addedMembers(entries, last);
    const removed = [...last].filter(([name]) => !names.has(name));
    const renamed = removed.length === 1 && entries.length === last.size ? source.parts[removed[0]![1]]!.source : undefined;
    const newSlots = (after?: string): Slot[] =>
      (added.get(after) ?? []).map(([name, member]) => ({ name, value: member, isFixed: false, source: this.pool.find(member, false) ?? renamed }));
    const kept = source.parts.flatMap((part, from): Slot[] => {
      if (!names.has(part.name!)) return [];
      const isLast = last.get(part.name!) === from;
      const member = isLast ? names.get(part.name!)! : part.source.value;
      const slot: Slot = { from, part, name: part.name, isFixed: true, source: part.source, value: member };
      return isLast ? [slot, ...newSlots(part.name)] : [slot];
    });
    return [...newSlots(), ...kept];
  }

  private slotsOfArray(source: Source, items: Json[]): Slot[] {
    const old = source.value as Json[];
    const byId = pairsById(old, items);
    const { pairs, moved } = byId ? { pairs: byId, moved: undefined } : this.pairsByValue(source, items);
    const fixed = new Set(longestIncreasing(pairs.map(([from]) => from)).map((i) => pairs[i]![1]));
    const origins = new Map(pairs.map(([from, to]) => [to, from]));
    return items.map((value, to): Slot => {
      const from = origins.get(to);
      const other = moved?.get(this.numbers.of(value));
      if (from === undefined) return { value, isFixed: false, source: other ?? this.pool.find(value, true) };
      const part = source.parts[from]!;
      const isSame = this.numbers.equal(old[from]!, value);
      return { from, part, value, isFixed: fixed.has(to), source: isSame ? part.source : (other ?? part.source) };
    });
  }

  /** Pairs equal items, and between them those whose text the other can use best. Returns also the items that moved. */
  private pairsByValue({ value, parts }: Source, items: Json[]): { pairs: Pair[]; moved: Map<number, Source> } {
    const old = value as Json[];
    const [a, b] = [old, items].map((list) => list.map((item) => this.numbers.of(item))) as [number[], number[]];
    const equal = commonPairs(a, b);
    const kept = new Set(equal.map(([from]) => from));
    const moved = new Map(parts.flatMap(({ source }, from): [number, Source][] => (kept.has(from) ? [] : [[a[from]!, source]])));
    const score = (i: number, j: number) => (moved.has(b[j]!) ? 1 : this.similarity(old[i]!, items[j]!));
    return { pairs: pairChanged(equal, [a.length, b.length], score), moved };
  }

  /** Returns how much of a value's text another value can use. 1 is the white space around it. */
  private similarity(old: Json, value: Json): number {
    if (!isObject(old) || !isObject(value)) return isObject(old) === isObject(value) && Array.isArray(old) === Array.isArray(value) ? 2 : 1;
    const score = (name: string, member: Json) => (this.numbers.equal(memberOf(old, name), member) ? 3 : +Object.hasOwn(old, name));
    return entriesOf(value).reduce((sum, [name, member]) => sum + score(name, member), 2);
  }

  private writeSlots(source: Source, slots: Slot[], at: At): string {
    const gaps = source.parts.map((_, i) => gapsOf(this.text, source, i));
    const isOneLine = !this.text.slice(source.start, source.end).includes('\n');
    const { text, values } = this.join(source, slots, gaps, isOneLine ? 'line' : this.layoutAmong(source.parts), at);
    const wasLong = at.column + source.end - source.start > LINE_COLUMNS_MAX;
    if (!isOneLine || !this.needsLines(slots, text, values, wasLong, at)) return text;
    const outer = this.style.newline + this.lines.indentAt(source.start);
    const inLines = gaps.map((_, i): Gap => ({ lead: outer + this.style.unit, trail: i < gaps.length - 1 ? '' : outer }));
    return this.join(source, slots, inLines, 'either', at).text;
  }

  /** Returns the layout of a new value among others. */
  private layoutAmong(parts: Part[]): Layout {
    const composite = parts.filter(({ source }) => source.parts.length > 0);
    const areInLines = composite.length > 0 && composite.every(({ source }) => this.text.slice(source.start, source.end).includes('\n'));
    return areInLines ? 'lines' : 'either';
  }

  /**
   * Says whether an object or array on one line gets lines: a new value in it has lines, or makes the line too long. An object whose line was
   * too long before stays on it, unless the new value is too long for any line.
   */
  private needsLines(slots: Slot[], text: string, values: string[], wasLong: boolean, at: At): boolean {
    if (this.style.isMinified) return false;
    return slots.some(({ isFixed, name, value }, i) => {
      if (isFixed || !isComposite(value)) return false;
      const columns = name !== undefined && wasLong ? at.indent.length + this.style.unit.length + values[i]!.length : at.column + text.length;
      return values[i]!.includes('\n') || columns > LINE_COLUMNS_MAX;
    });
  }

  /** Joins members or items with the gaps of the text. Returns the text, and that of each member or item. */
  private join(source: Source, slots: Slot[], gaps: Gap[], layout: Layout, at: At): { text: string; values: string[] } {
    const texts: string[] = [];
    let place = at;
    const add = (text: string): string => {
      texts.push(text);
      place = advance(place, text);
      return text;
    };
    add(this.text[source.start]!);
    const values = slots.map((slot, i) => {
      let [lead, otherwise] = this.leadsOf(slots, i, gaps).map((gap) => shifted(gap, at)) as [string, string | undefined];
      let text = this.writeSlot(slot, advance(place, lead), layout);
      if (otherwise !== undefined && (isComposite(slot.value) || !fits(lead + text, place))) {
        lead = otherwise;
        text = this.writeSlot(slot, advance(place, lead), layout);
      }
      add(lead);
      add(text);
      if (i < slots.length - 1) add(`${shifted(trailOf(slot, gaps), at)},`);
      return text;
    });
    add(shifted(gaps[gaps.length - 1]!.trail, at) + this.text[source.end - 1]!);
    return { text: texts.join(''), values };
  }

  /** Returns the white space before a slot, and another one for a value that is too long for the same line. */
  private leadsOf(slots: Slot[], i: number, gaps: Gap[]): string[] {
    const first = gaps[0]!.lead;
    if (i === 0) return [first];
    if (hasOwnLead(slots[i])) return [keptLead(slots, i, gaps)];
    const near = [slots[i - 1], slots[i + 1]].find(hasOwnLead);
    const usual = gaps[near?.from ?? 1]?.lead ?? (first.includes('\n') ? first : this.style.comma);
    return usual.includes('\n') || !first.includes('\n') ? [lastLine(usual)] : [usual, lastLine(first)];
  }

  private writeSlot({ name, value, source, part, isFixed }: Slot, at: At, layout: Layout): string {
    const colon = name === undefined ? '' : JSON.stringify(name) + this.style.colon;
    const before = part ? shifted(this.text.slice(part.start, part.source.start), at) : colon;
    const moved = source && !(isFixed && source === part?.source) ? { ...at, shift: { from: this.lines.indentAt(source.start), to: at.indent } } : at;
    const place = advance(moved, before);
    return before + (source ? this.write(source, value, place) : this.writeNew(value, place, layout));
  }

  private writeNew(value: Json, at: At, layout: Layout = 'either'): string {
    if (!isComposite(value)) return this.writeScalar(value as Scalar);
    const line = layout === 'lines' || !this.style.hasOneLineValues ? undefined : this.writeLine(value);
    if (line !== undefined && (layout === 'line' || this.style.isMinified || fits(line, at))) return line;
    const { newline, unit } = this.style;
    const indent = at.indent + unit;
    const place: At = { ...at, column: indent.length, indent, isBlank: true };
    const children = this.childrenOf(value).map((slot) => newline + indent + this.writeSlot(slot, place, 'either'));
    if (children.length === 0) return emptyOf(value);
    const [open, close] = emptyOf(value);
    return `${open}${children.join(',')}${newline}${at.indent}${close}`;
  }

  /** Returns a new value on one line, or undefined if a copied text in it has lines. */
  private writeLine(value: Json): string | undefined {
    if (!isComposite(value)) return this.writeScalar(value as Scalar);
    const slots = this.childrenOf(value);
    if (slots.length === 0) return emptyOf(value);
    const texts = slots.map(({ name, value: child, source }) => {
      const text = source ? this.write(source, child, START) : this.writeLine(child);
      return name === undefined || text === undefined ? text : JSON.stringify(name) + this.style.colon + text;
    });
    if (texts.some((text) => text === undefined || text.includes('\n'))) return undefined;
    const kind = !Array.isArray(value) ? 'object' : value.some(isComposite) ? 'nested' : 'flat';
    const [open, close] = emptyOf(value);
    return open + this.style.pads[kind] + texts.join(`,${this.style.comma}`) + this.style.pads[kind] + close;
  }

  private childrenOf(value: Json): Slot[] {
    if (Array.isArray(value)) return value.map((item) => ({ value: item, isFixed: false, source: this.pool.find(item, true) }));
    return entriesOf(value as JsonObject).map(([name, member]) => ({ name, value: member, isFixed: false, source: this.pool.find(member, false) }));
  }

  private writeScalar(value: Scalar): string {
    if (typeof value !== 'number' || Number.isSafeInteger(value)) return Object.is(value, -0) ? '-0' : JSON.stringify(value);
    const spelling = Math.abs(value) > Number.MAX_SAFE_INTEGER ? this.pool.spelling(value) : undefined;
    if (spelling === undefined && !Number.isFinite(value)) throw new PatchError(`JSON has no value for ${value}.`, {});
    return spelling ?? JSON.stringify(value);
  }
}

type Scalar = null | boolean | number | string;

/** The values of a text by their content, to copy those that moved. */
class Pool {
  private readonly equal = new Map<number, Source>();
  private readonly byId = new Map<string, Source>();
  private readonly equalWithoutIds = new Map<number, Source>();
  private readonly spellings = new Map<number, string>();
  private isFilled = false;

  constructor(
    private readonly text: string,
    private readonly numbers: ValueNumbers,
    private readonly root: Source,
  ) {}

  /** Returns an equal value, else for an item the one with the same ID, else one with other IDs. */
  find(value: Json, isItem: boolean): Source | undefined {
    if (!isComposite(value) || Object.keys(value as object).length === 0) return undefined;
    if (!this.isFilled) this.fill(this.root, false);
    const id = isItem ? idOf(value) : undefined;
    const sameId = id === undefined ? undefined : this.byId.get(id);
    return this.equal.get(this.numbers.of(value)) ?? sameId ?? this.equalWithoutIds.get(this.numbers.withoutIds(value));
  }

  /** Returns the text of a number that the text has. */
  spelling(value: number): string | undefined {
    if (!this.isFilled) this.fill(this.root, false);
    return this.spellings.get(value);
  }

  private fill(source: Source, isItem: boolean): void {
    this.isFilled = true;
    const { value, start, end, parts } = source;
    if (typeof value === 'number' && Math.abs(value) > Number.MAX_SAFE_INTEGER) setOnce(this.spellings, value, this.text.slice(start, end));
    if (parts.length === 0) return;
    setOnce(this.equal, this.numbers.of(value), source);
    setOnce(this.equalWithoutIds, this.numbers.withoutIds(value), source);
    const id = isItem ? idOf(value) : undefined;
    if (id !== undefined) setOnce(this.byId, id, source);
    for (const part of parts) this.fill(part.source, Array.isArray(value));
  }
}

function setOnce<K, V>(map: Map<K, V>, key: K, value: V): void {
  if (!map.has(key)) map.set(key, value);
}

/** Returns the new members by the member after which they are. Those at the beginning are under undefined. */
function addedMembers(entries: [string, Json][], old: Map<string, number>): Map<string | undefined, [string, Json][]> {
  const added = new Map<string | undefined, [string, Json][]>();
  let after: string | undefined;
  for (const entry of entries) {
    if (old.has(entry[0])) after = entry[0];
    else if (added.has(after)) added.get(after)!.push(entry);
    else added.set(after, [entry]);
  }
  return added;
}

/** Returns the pairs of items with the same ID, in the order of the new items, or undefined if not all have an ID of their own. */
function pairsById(old: Json[], items: Json[]): Pair[] | undefined {
  const [a, b] = [indexById(old), indexById(items)];
  if (!a || !b) return undefined;
  return [...b].filter(([id]) => a.has(id)).map(([id, to]) => [a.get(id)!, to]);
}

function indexById(items: Json[]): Map<string, number> | undefined {
  const ids = items.map((item) => idOf(item));
  const index = new Map(ids.map((id, i) => [id!, i]));
  return ids.includes(undefined) || index.size < ids.length ? undefined : index;
}

/** Says whether the text has white space of its own between the comma before a part and the part. */
const hasOwnLead = (slot: Slot | undefined): boolean => slot !== undefined && slot.isFixed && slot.from! > 0;

/** Returns the white space before a part. After removed parts it is theirs if it has more lines, so that no line is joined to another. */
function keptLead(slots: Slot[], i: number, gaps: Gap[]): string {
  const { from } = slots[i]!;
  const before = slots[i - 1]!;
  const leads = gaps.slice(before.isFixed ? before.from! + 1 : from!, from! + 1).map(({ lead }) => lead);
  return leads.reduceRight((best, lead) => (lead.split('\n').length > best.split('\n').length ? lead : best));
}

function trailOf({ from }: Slot, gaps: Gap[]): string {
  const own = from !== undefined && from < gaps.length - 1 ? gaps[from] : undefined;
  return (own ?? (gaps.length > 1 ? gaps[0] : undefined))?.trail ?? '';
}

/** Returns white space without its blank lines. */
const lastLine = (space: string): string => /\r?\n[^\n]*$/.exec(space)?.[0] ?? space;

/** Returns a copied text with the indentation of its place in all lines but the first. */
function shifted(text: string, { shift: { from, to } }: At): string {
  if (from === to || !text.includes('\n')) return text;
  return text.replace(/\n([ \t]*)(?![ \t\r\n])/g, (line, indent: string) => (indent.startsWith(from) ? `\n${to}${indent.slice(from.length)}` : line));
}

/** Returns the place after a text. */
function advance(at: At, text: string): At {
  const start = text.lastIndexOf('\n') + 1;
  const line = start > 0 ? START : at;
  const added = text.length - start;
  const space = line.isBlank ? leadingSpace(text, start) : '';
  return { ...at, column: line.column + added, indent: line.indent + space, isBlank: line.isBlank && space.length === added };
}

const fits = (text: string, at: At): boolean => !text.includes('\n') && at.column + text.length <= LINE_COLUMNS_MAX;

const emptyOf = (value: Json): string => (Array.isArray(value) ? '[]' : '{}');

/** Writes a new string. A character that the old one always escapes is escaped in the same way, such as a no-break space. */
function writeString(old: string, value: string): string {
  const escapes = new Map<string, string>();
  const raw = new Set<string>();
  for (const [unit] of old.slice(1, -1).matchAll(UNITS)) {
    if (unit.length > 1) escapes.set(JSON.parse(`"${unit}"`), unit);
    else raw.add(unit);
  }
  const spell = (unit: string) => {
    const char: string = unit.length > 1 ? JSON.parse(`"${unit}"`) : unit;
    return raw.has(char) || isSurrogate(char) ? unit : (escapes.get(char) ?? unit);
  };
  return `"${JSON.stringify(value).slice(1, -1).replace(UNITS, spell)}"`;
}

/** A character of a JSON string, in UTF-16 units. */
const UNITS = /\\u[0-9a-fA-F]{4}|\\?[^]/g;

/** Half a character has no spelling of its own: its other half may have none. */
const isSurrogate = (char: string): boolean => char >= '\ud800' && char <= '\udfff';
