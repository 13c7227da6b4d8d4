// Changes several files at once, or none.
//
// The new texts are written beside their files and synced. Then the journal is renamed into place: from here on the save counts. The
// renames follow, and the journal is removed. A process that finds a journal does the renames that are missing. All calls are
// synchronous, so nothing else of this process runs between two renames.
import {
  closeSync, constants, fchmodSync, fsyncSync, lstatSync, mkdirSync, openSync, readFileSync, renameSync, rmdirSync, unlinkSync, writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { isSitePath } from './check.js';
import { StorageError } from './errors.js';
import { JOURNAL_BYTES_MAX } from './limits.js';
import { OWN, hashOf } from './site-directory.js';
import type { User } from './storage.js';

export const JOURNAL_NAME = `${OWN}journal`;
const VERSION = 1;

/** One file of a save. The hashes are ETags, or null for no file. */
export interface Step {
  path: string;
  /** The path of the file with the new text. Null if the file is removed. */
  temporary: string | null;
  old: string | null;
  next: string | null;
}

export interface Journal {
  version: number;
  steps: Step[];
  /** The commit that follows the renames. */
  commit: { message: string; author: User } | null;
}

/** A change with its hashes. */
export interface Edit {
  path: string;
  text: string | null;
  old: string | null;
  next: string | null;
}

/** The files were changed by hand after the check, and nothing was changed here. */
export class ChangedByHand extends Error {}

/** Writes all edits. After an error that is not `unfinished`, none of them is written. The journal stays until `removeJournal`. */
export function apply(root: string, edits: Edit[], commit: Journal['commit']): Journal {
  const made: string[] = [];
  const steps = edits.map(({ path: name, text, old, next }, n): Step => {
    const temporary = text === null ? null : `${parentOf(name)}${OWN}new-${n}`;
    return { path: name, temporary, old, next };
  });
  const journal: Journal = { version: VERSION, steps, commit };
  try {
    for (const [n, step] of steps.entries()) prepare(root, step, edits[n]!.text, made);
    syncDirectories(root, steps);
    writeJournal(root, journal);
  } catch (error) {
    removeTemporaries(root, steps);
    for (const directory of made.reverse()) attempt(() => rmdirSync(directory));
    throw error;
  }
  finish(root, journal);
  return journal;
}

/** Does the renames that are missing. Removes the journal if nothing of it can be done. */
export function finish(root: string, journal: Journal): void {
  const states = journal.steps.map((step) => stateOf(root, step));
  if (states.includes('other')) {
    const step = journal.steps[states.indexOf('other')]!;
    if (states.includes('next')) throw conflict(step.path);
    removeJournal(root);
    removeTemporaries(root, journal.steps);
    throw new ChangedByHand(`${step.path} was changed by hand.`);
  }
  try {
    syncDirectory(root);
    for (const [n, step] of journal.steps.entries()) {
      if (states[n] === 'next') continue;
      if (step.temporary === null) unlinkSync(path.join(root, step.path));
      else renameSync(path.join(root, step.temporary), path.join(root, step.path));
    }
    syncDirectories(root, journal.steps);
  } catch (cause) {
    throw unfinished(cause);
  }
}

export function removeJournal(root: string): void {
  try {
    removeIfPresent(path.join(root, JOURNAL_NAME));
    syncDirectory(root);
  } catch (cause) {
    throw unfinished(cause);
  }
}

function unfinished(cause: unknown): StorageError {
  return new StorageError('unfinished', 'The save was begun and not finished. The next request finishes it.', { cause });
}

/** Returns the journal of a save that was begun, or null. */
export function readJournal(root: string): Journal | null {
  const file = path.join(root, JOURNAL_NAME);
  const stat = lstatSync(file, { throwIfNoEntry: false });
  if (!stat) return null;
  if (!stat.isFile() || stat.size > JOURNAL_BYTES_MAX) throw damaged();
  const [text = '', hash] = readFileSync(file, 'utf8').split('\n');
  let journal: Journal;
  try {
    journal = JSON.parse(text) as Journal;
  } catch {
    throw damaged();
  }
  if (Number.isInteger(journal?.version) && journal.version > VERSION) {
    throw new StorageError('journal_newer', `A newer release began a save, as ${JOURNAL_NAME} of the site directory says. Start that release to finish it.`);
  }
  if (hash !== hashOf(text) || journal.version !== VERSION || !journal.steps.every(isStep)) throw damaged();
  return journal;
}

function isStep({ path: name, temporary }: Step): boolean {
  const isOwn = temporary === null || (path.posix.basename(temporary).startsWith(`${OWN}new-`) && parentOf(temporary) === parentOf(name));
  return isSitePath(name) && isOwn;
}

function damaged(): StorageError {
  const detail = `The file ${JOURNAL_NAME} of the site directory is damaged, so a save may be half done. Compare the files with the last version, then delete it.`;
  return new StorageError('journal_damaged', detail);
}

function conflict(name: string): StorageError {
  const where = `Its new texts are in the files ${OWN}new-* beside their files.`;
  const remedy = `Move them into place, or delete them, and then delete ${JOURNAL_NAME} of the site directory.`;
  return new StorageError('recovery_conflict', `A save was half done when ${name} was changed by hand. ${where} ${remedy}`);
}

/** Returns the directory of a file, with the `/` at its end, or an empty text. */
function parentOf(name: string): string {
  return name.slice(0, name.lastIndexOf('/') + 1);
}

/** Makes the directories of a file, and writes its new text beside it. */
function prepare(root: string, step: Step, text: string | null, made: string[]): void {
  makeDirectories(root, step.path, made);
  const mode = checkPlace(root, step);
  if (step.temporary === null) return;
  const temporary = path.join(root, step.temporary);
  removeIfPresent(temporary);
  const file = openSync(temporary, 'wx');
  try {
    if (mode !== null) fchmodSync(file, mode);
    writeFileSync(file, text!);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}

function makeDirectories(root: string, name: string, made: string[]): void {
  const names = name.split('/').slice(0, -1);
  let parent = root;
  for (const directory of names) {
    const place = path.join(parent, directory);
    const stat = lstatSync(place, { throwIfNoEntry: false });
    if (stat?.isSymbolicLink()) throw new StorageError('link', `A directory above ${name} is a symbolic link. Nothing is written through it.`);
    if (stat && !stat.isDirectory()) throw new StorageError('not_a_file', `A directory above ${name} is a file.`);
    if (!stat) {
      mkdirSync(place);
      made.push(place);
      syncDirectory(parent);
    }
    parent = place;
  }
}

/** Checks that the place of a file is as the check of the ETags found it. Returns the mode of the present file, or null. */
function checkPlace(root: string, step: Step): number | null {
  const stat = lstatSync(path.join(root, step.path), { throwIfNoEntry: false });
  if (stat?.isSymbolicLink()) throw new StorageError('link', `${step.path} is a symbolic link. Nothing is written through it.`);
  if (stat && !stat.isFile()) throw new StorageError('not_a_file', `${step.path} is not a file.`);
  if (hashOfFile(path.join(root, step.path)) !== step.old) throw new ChangedByHand(`${step.path} was changed by hand.`);
  return stat ? stat.mode & 0o7777 : null;
}

/** Returns whether the file has its old or its new text. It has another one if a person changed it, or if its new text is missing. */
function stateOf(root: string, { path: name, temporary, old, next }: Step): 'old' | 'next' | 'other' {
  const present = hashOfFile(path.join(root, name));
  if (present === next) return 'next';
  const isReady = temporary === null || hashOfFile(path.join(root, temporary)) === next;
  return present === old && isReady ? 'old' : 'other';
}

/** Returns null for no file, and an empty text for anything that is not a regular one. */
function hashOfFile(file: string): string | null {
  const stat = lstatSync(file, { throwIfNoEntry: false });
  if (!stat?.isFile()) return stat ? '' : null;
  const handle = openSync(file, constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0));
  try {
    return hashOf(readFileSync(handle));
  } finally {
    closeSync(handle);
  }
}

function writeJournal(root: string, journal: Journal): void {
  const text = JSON.stringify(journal);
  const temporary = path.join(root, `${JOURNAL_NAME}-new`);
  removeIfPresent(temporary);
  const file = openSync(temporary, 'wx');
  try {
    writeFileSync(file, `${text}\n${hashOf(text)}\n`);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
  renameSync(temporary, path.join(root, JOURNAL_NAME));
}

/** Removes files that mean nothing without a journal. The next request removes those that stay because of an error. */
function removeTemporaries(root: string, steps: Step[]): void {
  const names = [`${JOURNAL_NAME}-new`, ...steps.flatMap(({ temporary }) => temporary ?? [])];
  for (const name of names) attempt(() => removeIfPresent(path.join(root, name)));
}

function attempt(change: () => void): void {
  try {
    change();
  } catch {
    // An earlier error is the one to report.
  }
}

function syncDirectories(root: string, steps: Step[]): void {
  const parents = new Set(steps.map((step) => path.join(root, parentOf(step.path))));
  for (const parent of parents) syncDirectory(parent);
}

/** Makes the names in a directory durable. Windows cannot open a directory, and does this itself. */
function syncDirectory(directory: string): void {
  if (process.platform === 'win32') return;
  const handle = openSync(directory, constants.O_RDONLY);
  try {
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}

export function removeIfPresent(file: string): void {
  try {
    unlinkSync(file);
  } catch (error) {
    if (!['ENOENT', 'ENOTDIR'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error;
  }
}
