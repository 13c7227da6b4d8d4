import { readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';

export const COMPOSER = process.env['PARALLAX_COMPOSER']!;
const ROOT = path.dirname(COMPOSER);

/** Returns the JSON files of a directory by their paths in it. */
export function filesIn(directory: string): Record<string, string> {
  const names = readdirSync(directory, { recursive: true }).map(String).filter((name) => name.endsWith('.json'));
  return Object.fromEntries(names.sort().map((name) => [name, readFileSync(path.join(directory, name), 'utf8')]));
}

/** The files of the demo site. */
export const DEMO = filesIn(path.join(ROOT, 'snapshots/demo'));

/** The JSON of a page of the documentation, whose layout differs from that of the demo site. */
export function examplesOf(page: string): string[] {
  const text = readFileSync(path.join(ROOT, 'docs', page), 'utf8');
  return [...text.matchAll(/^```json\n(.*?)^```/gms)].map((block) => block[1]!).filter((block) => !block.includes('//'));
}

/** Returns the lines that differ: those of the longest common subsequence are left out. */
export function differences(before: string[], after: string[]): { removed: string[]; added: string[] }[] {
  const common = Array.from({ length: before.length + 1 }, () => new Uint32Array(after.length + 1));
  for (let i = before.length - 1; i >= 0; i--) {
    for (let j = after.length - 1; j >= 0; j--) {
      common[i]![j] = before[i] === after[j] ? common[i + 1]![j + 1]! + 1 : Math.max(common[i + 1]![j]!, common[i]![j + 1]!);
    }
  }
  const hunks: { removed: string[]; added: string[] }[] = [];
  let hunk: { removed: string[]; added: string[] } | undefined;
  for (let i = 0, j = 0; i < before.length || j < after.length; ) {
    if (i < before.length && j < after.length && before[i] === after[j]) {
      hunk = undefined;
      i++;
      j++;
      continue;
    }
    if (!hunk) hunks.push((hunk = { removed: [], added: [] }));
    if (j >= after.length || (i < before.length && common[i + 1]![j]! >= common[i]![j + 1]!)) hunk.removed.push(before[i++]!);
    else hunk.added.push(after[j++]!);
  }
  return hunks;
}
