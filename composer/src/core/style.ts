import type { Lines, Part, Source } from './source.js';

/** The layout that most values of a text have. New values get it. */
export interface Style {
  newline: string;
  /** The indentation of one level. */
  unit: string;
  /** The text between a name and its value. */
  colon: string;
  /** The white space after a comma on one line. */
  comma: string;
  /** The white space inside the brackets of a value on one line: objects, arrays with an object or an array, other arrays. */
  pads: { object: string; nested: string; flat: string };
  /** False in a text whose values are all in lines. */
  hasOneLineValues: boolean;
  /** True for a long text without line breaks. It gets none. */
  isMinified: boolean;
}

/** Columns of a line up to which a new value is on one line. */
export const LINE_COLUMNS_MAX = 140;

/** A count of texts. */
class Votes {
  private readonly counts = new Map<string, number>();

  add(vote: string): void {
    this.counts.set(vote, (this.counts.get(vote) ?? 0) + 1);
  }

  get isEmpty(): boolean {
    return this.counts.size === 0;
  }

  /** Returns the text with the most votes, the first one of equals. */
  winner(otherwise: string): string {
    return [...this.counts].reduce((best, vote) => (vote[1] > best[1] ? vote : best), [otherwise, 0] as [string, number])[0];
  }
}

export const padKind = (source: { value: unknown; parts: { source: { value: unknown } }[] }): keyof Style['pads'] =>
  !Array.isArray(source.value) ? 'object' : source.parts.some((part) => isComposite(part.source.value)) ? 'nested' : 'flat';

export const isComposite = (value: unknown): boolean => typeof value === 'object' && value !== null;

/** Returns the text before a part, up to the bracket or comma, and the text after it. */
export function gapsOf(text: string, source: Source, at: number): { lead: string; trail: string } {
  const { parts, end } = source;
  const part = parts[at]!;
  const before = at > 0 ? text.indexOf(',', parts[at - 1]!.source.end) + 1 : source.start + 1;
  const after = at < parts.length - 1 ? text.indexOf(',', part.source.end) : end - 1;
  return { lead: text.slice(before, part.start), trail: text.slice(part.source.end, after) };
}

/** Finds the style of a text. */
export function styleOf(text: string, root: Source, lines: Lines): Style {
  const votes = { unit: new Votes(), colon: new Votes(), comma: new Votes(), object: new Votes(), nested: new Votes(), flat: new Votes() };
  let inLines = 0;
  const visit = (source: Source, isRoot: boolean): void => {
    const [first] = source.parts;
    if (first) {
      const { lead } = gapsOf(text, source, 0);
      const isInLines = text.slice(source.start, source.end).includes('\n');
      if (isInLines && !isRoot) inLines++;
      if (lead.includes('\n')) voteForUnit(votes.unit, lines.indentAt(source.start), lines.indentAt(first.start));
      else if (!isInLines) votes[padKind(source)].add(lead);
      if (!isInLines && source.parts.length > 1) votes.comma.add(gapsOf(text, source, 1).lead);
    }
    source.parts.forEach((part) => voteForColon(votes.colon, text, part));
    source.parts.forEach((part) => visit(part.source, false));
  };
  visit(root, true);
  const space = votes.colon.winner(': ').endsWith(' ') ? ' ' : '';
  const oneLine = [votes.object, votes.nested, votes.flat].some((vote) => !vote.isEmpty);
  return {
    newline: text.includes('\r\n') ? '\r\n' : '\n',
    unit: votes.unit.winner('  '),
    colon: votes.colon.winner(': '),
    comma: votes.comma.winner(space),
    pads: { object: votes.object.winner(space), nested: votes.nested.winner(''), flat: votes.flat.winner('') },
    hasOneLineValues: oneLine || inLines === 0,
    isMinified: root.end - root.start > LINE_COLUMNS_MAX && !text.slice(root.start, root.end).includes('\n'),
  };
}

function voteForUnit(votes: Votes, outer: string, inner: string): void {
  if (inner.startsWith(outer) && inner.length > outer.length) votes.add(inner.slice(outer.length));
}

function voteForColon(votes: Votes, text: string, { name, start, source }: Part): void {
  if (name === undefined) return;
  const colon = /\s*:\s*$/.exec(text.slice(start, source.start))![0];
  if (!colon.includes('\n')) votes.add(colon);
}
