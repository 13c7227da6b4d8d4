// The checks of paths, counts and sizes, for all storages.
import { StorageError } from './errors.js';
import { CHANGES_MAX, FILES_MAX, FILE_BYTES_MAX, MESSAGE_BYTES_MAX, PATH_BYTES_MAX, REVISION_CHARS_MAX, SITE_BYTES_MAX, USER_BYTES_MAX } from './limits.js';
import type { Change, Save, User } from './storage.js';

const TOP_FILE = /^(site|audiences|groups|queries)\.json$/;
const IN_DIRECTORY = /^(routes|content|tests)\//;
/** Control and invisible characters, the separator and the drives and streams of Windows, and halves of surrogate pairs. */
const FORBIDDEN = /[\p{Cc}\p{Cf}\p{Cs}\\:]/u;
/** The short name that Windows gives `.git`. git refuses it in a tree. */
const SHORT_GIT = /^git~\d+$/i;
const ETAG = /^[0-9a-f]{64}$/;

/** Returns the number of bytes of a text in UTF-8. */
export function byteLength(text: string): number {
  return new TextEncoder().encode(text).length;
}

/** Returns whether UTF-8 can have the text: whether it has no half of a surrogate pair. */
export function isWellFormed(text: string): boolean {
  return !/[\ud800-\udfff]/u.test(text);
}

/** The bounds of a storage. */
export interface Bounds {
  files: number;
  /** Bytes of all texts of a save. */
  saveBytes: number;
}
const BOUNDS: Bounds = { files: FILES_MAX, saveBytes: SITE_BYTES_MAX };

/** Returns whether files of a site can be at this path or below it. */
export function isInSite(path: string): boolean {
  return TOP_FILE.test(path) || IN_DIRECTORY.test(`${path}/`);
}

/** Returns whether files of a site can be in the directory with this path. */
export function isSiteDirectory(path: string): boolean {
  return isSitePath(`${path}/a.json`);
}

/** Returns whether this is the path of a file of a site: relative, with `/`, without hidden names. */
export function isSitePath(path: string): boolean {
  const isInPlace = TOP_FILE.test(path) || (IN_DIRECTORY.test(path) && path.endsWith('.json'));
  if (!isInPlace || FORBIDDEN.test(path) || byteLength(path) > PATH_BYTES_MAX) return false;
  const names = path.split('/');
  // A directory `a.json` would take the place of a file.
  const isName = (name: string, n: number) => !SHORT_GIT.test(name) && (n === names.length - 1 || !name.endsWith('.json'));
  return names.every((name, n) => name !== '' && !name.startsWith('.') && isName(name, n));
}

/** Checks a save before a storage looks at its files. */
export function checkSave({ base, changes, message, author }: Save, { saveBytes }: Bounds = BOUNDS): void {
  if (typeof base !== 'string' || base.length > REVISION_CHARS_MAX) throw invalid('The save has no revision as its base.');
  checkMessage(message);
  authorOf(author);
  if (changes.length === 0) throw invalid('The save has no change.');
  if (changes.length > CHANGES_MAX) {
    throw new StorageError('too_many_changes', `The save has ${changes.length} changes, and at most ${CHANGES_MAX} are possible; save in parts.`);
  }
  changes.forEach(checkChange);
  if (new Set(changes.map((change) => change.path)).size < changes.length) throw invalid('The save has two changes of one file.');
  const bytes = changes.reduce((sum, { text }) => sum + byteLength(text ?? ''), 0);
  if (bytes > saveBytes) {
    throw new StorageError('save_too_large', `The changed files have ${bytes} bytes, and at most ${saveBytes} are possible; save in parts.`);
  }
}

function checkMessage(message: string): void {
  const bytes = byteLength(message);
  if (bytes > MESSAGE_BYTES_MAX) {
    throw new StorageError('message_too_long', `The message has ${bytes} bytes, and at most ${MESSAGE_BYTES_MAX} are possible.`);
  }
  if (message.trim() === '' || message.includes('\0') || !isWellFormed(message)) throw invalid('The save has no message, or one with a NUL.');
}

/** Returns the user as the author of a commit: without the characters that git does not allow. */
export function authorOf({ name, email }: User): User {
  const clean = (text: string) => text.replace(/[\p{Cc}\p{Cs}<>\s]+/gu, ' ').trim();
  const author = { name: clean(name), email: clean(email) };
  // git removes these characters from the ends of a name, and refuses an empty one.
  const isUsable = (text: string) => text.replace(/[\s.,:;"'\\]/g, '') !== '' && byteLength(text) <= USER_BYTES_MAX;
  if (!isUsable(author.name) || !isUsable(author.email)) throw invalid('The author has no usable name or e-mail address.');
  return author;
}

function checkChange({ path, text, etag }: Change): void {
  if (!isSitePath(path)) throw new StorageError('invalid_path', `${JSON.stringify(path)} is not the path of a file of a site.`);
  if (etag !== null && !ETAG.test(etag)) throw invalid(`The ETag of ${path} is not a SHA-256 in hex.`);
  if (text === null && etag === null) throw invalid(`${path} does not exist, and cannot be removed.`);
  if (text === null) return;
  if (!isWellFormed(text)) throw new StorageError('not_utf8', `The text of ${path} has half of a surrogate pair.`);
  checkFileBytes(path, byteLength(text));
}

export function checkFileBytes(path: string, bytes: number): void {
  if (bytes <= FILE_BYTES_MAX) return;
  throw new StorageError('file_too_large', `${path} has ${bytes} bytes, and at most ${FILE_BYTES_MAX} are possible.`);
}

/** Checks the number and the bytes of all files of a site. */
export function checkSiteSize(files: number, bytes: number, bounds: Bounds = BOUNDS): void {
  if (files > bounds.files) throw new StorageError('too_many_files', `The site has ${files} files or more, and at most ${bounds.files} are possible.`);
  if (bytes > SITE_BYTES_MAX) {
    throw new StorageError('site_too_large', `The files of the site have ${bytes} bytes or more, and at most ${SITE_BYTES_MAX} are possible.`);
  }
}

function invalid(message: string): StorageError {
  return new StorageError('invalid_save', message);
}
