import { type Conflict, merge } from './merge.js';
import { MergeError, type Versions } from './moves.js';
import { patch } from './patch.js';
import { PatchError, readSource } from './source.js';

/** A conflict, and the path of its file. */
export interface FileConflict extends Conflict {
  file: string;
}

export interface MergedFiles {
  files: Record<string, string>;
  conflicts: FileConflict[];
}

type Texts = Versions<string | undefined>;

/**
 * Merges the changes of two versions of the files of a site. The maps have the text of each file by its path.
 *
 * A file that both sides changed is merged by value, and the result is written into the text of `theirs`. A file is one conflict if one side
 * removed and the other one changed it, if both sides added it with different values, and if a version of it is no JSON or cannot be merged.
 */
export function mergeFiles(base: Record<string, string>, ours: Record<string, string>, theirs: Record<string, string>): MergedFiles {
  const conflicts: FileConflict[] = [];
  const textOf = (files: Record<string, string>, file: string) => (Object.hasOwn(files, file) ? files[file] : undefined);
  const files = [...new Set([base, ours, theirs].flatMap((version) => Object.keys(version)))].sort().map((file): [string, string | undefined] => {
    const merged = mergeFile({ base: textOf(base, file), ours: textOf(ours, file), theirs: textOf(theirs, file) });
    for (const conflict of merged.conflicts) conflicts.push({ file, ...conflict });
    return [file, merged.text];
  });
  return { files: Object.fromEntries(files.filter((file): file is [string, string] => file[1] !== undefined)), conflicts };
}

function mergeFile(texts: Texts): { text: string | undefined; conflicts: Conflict[] } {
  const { base, ours, theirs } = texts;
  if (ours === theirs || base === theirs) return { text: ours, conflicts: [] };
  if (base === ours) return { text: theirs, conflicts: [] };
  const merged = ours === undefined || theirs === undefined ? undefined : mergeTexts(base, ours, theirs);
  if (merged) return merged;
  const present = Object.entries(texts).filter(([, text]) => text !== undefined);
  return { text: ours, conflicts: [{ kind: 'file', path: '', ...Object.fromEntries(present) }] };
}

/** Returns the merged text, or undefined if the values cannot be merged. */
function mergeTexts(base: string | undefined, ours: string, theirs: string): { text: string; conflicts: Conflict[] } | undefined {
  try {
    const [own, other] = [readSource(ours).value, readSource(theirs).value];
    if (base === undefined) return patch(theirs, own) === theirs ? { text: theirs, conflicts: [] } : undefined;
    const { value, conflicts } = merge(readSource(base).value, own, other);
    return { text: patch(theirs, value), conflicts };
  } catch (error) {
    if (error instanceof PatchError || error instanceof MergeError) return undefined;
    throw error;
  }
}
