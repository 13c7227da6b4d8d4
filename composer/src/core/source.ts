import { type Node, type ParseError, parseTree } from 'jsonc-parser';
import type { Json } from './json.js';
import { NESTING_MAX } from './sequence.js';

/** A text that is no JSON, or a value that JSON cannot have. */
export class PatchError extends Error {
  /** Of an invalid text: the offset of the first fault, in UTF-16 units. */
  declare readonly offset?: number;
  /** Of an invalid value: the JSON pointer of its place. */
  declare readonly pointer?: string;

  constructor(message: string, place: { offset?: number; pointer?: string }) {
    super(message);
    Object.assign(this, place, { name: 'PatchError' });
  }
}

/** A value of a text, with its place. */
export interface Source {
  start: number;
  end: number;
  value: Json;
  /** Of an object or an array: its members or items, in the order of the text. */
  parts: Part[];
}

/** A member or an item. A member begins with its name. */
export interface Part {
  name?: string;
  start: number;
  source: Source;
}

/** Reads a text. Throws a `PatchError` if it is no JSON, or nested too deeply. */
export function readSource(text: string): Source {
  checkNesting(text);
  const errors: ParseError[] = [];
  try {
    JSON.parse(text);
  } catch (error) {
    parseTree(text, errors, { disallowComments: true });
    const { message } = error as Error;
    throw new PatchError(`The text is no JSON: ${message}`, { offset: errors[0]?.offset ?? Number(/position (\d+)/.exec(message)?.[1] ?? 0) });
  }
  return sourceOf(parseTree(text)!);
}

/** Refuses a text that is nested too deeply, before a recursion reads it. */
function checkNesting(text: string): void {
  let [depth, isInString] = [0, false];
  for (let at = 0; at < text.length; at++) {
    const char = text[at];
    if (char === '"') isInString = !isInString;
    else if (isInString) at += +(char === '\\');
    else if (char === '[' || char === '{') depth++;
    else if (char === ']' || char === '}') depth--;
    if (depth > NESTING_MAX) throw new PatchError(`The text is nested deeper than ${NESTING_MAX} levels.`, { offset: at });
  }
}

function sourceOf(node: Node): Source {
  const [start, end] = [node.offset, node.offset + node.length];
  if (node.type === 'array') {
    const parts = node.children!.map((item): Part => ({ start: item.offset, source: sourceOf(item) }));
    return { start, end, parts, value: parts.map((part) => part.source.value) };
  }
  if (node.type === 'object') {
    const parts = node.children!.map(({ offset, children }): Part => ({ name: children![0]!.value, start: offset, source: sourceOf(children![1]!) }));
    return { start, end, parts, value: Object.fromEntries(parts.map(({ name, source }) => [name!, source.value])) };
  }
  return { start, end, parts: [], value: node.value };
}

/** The starts of the lines of a text, to find the indentation of a place. */
export class Lines {
  private readonly starts = [0];

  constructor(private readonly text: string) {
    for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) this.starts.push(at + 1);
  }

  /** Returns the white space with which the line of an offset begins. */
  indentAt(offset: number): string {
    let low = 0;
    for (let high = this.starts.length; high - low > 1; ) {
      const middle = (low + high) >> 1;
      if (this.starts[middle]! <= offset) low = middle;
      else high = middle;
    }
    return leadingSpace(this.text, this.starts[low]!);
  }
}

/** Returns the spaces and tabs at an offset. */
export function leadingSpace(text: string, offset = 0): string {
  let end = offset;
  while (text[end] === ' ' || text[end] === '\t') end++;
  return text.slice(offset, end);
}
