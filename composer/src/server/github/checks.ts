import type { Change, Save, User } from '../storage.js';
import { GitHubError } from './errors.js';

/** Files of a site. The first listing needs a request for each, of the 5,000 that GitHub allows in an hour. */
export const FILES_MAX = 2_000;
/** Bytes of one file: the limit of a file in `routes/` in the compiler. */
export const FILE_BYTES_MAX = 8 << 20;
/** Bytes of all files of a site. The editor has all of them in the memory of a browser. */
export const SITE_BYTES_MAX = 64 << 20;
/** Changes of one save. An experiment over all its pages is one save. */
export const CHANGES_MAX = 500;
/** Bytes of all texts of a save. They are one request, for which GitHub takes at most 10 s. */
export const SAVE_BYTES_MAX = 8 << 20;
/** Bytes of the message of a save. GitHub allows 65,536 characters for the text of a pull request. */
export const MESSAGE_BYTES_MAX = 4_096;
/** Bytes of a path. Below the limit of Windows for a path, with space for a site directory. */
export const PATH_BYTES_MAX = 200;

const TOP_FILE = /^(site|audiences|groups|queries)\.json$/;
const IN_DIRECTORY = /^(routes|content|tests)\//;
/** Control and invisible characters, the separator and the drives and streams of Windows, and halves of surrogate pairs. */
const FORBIDDEN = /[\p{Cc}\p{Cf}\p{Cs}\\:]/u;
/** The short name that Windows gives `.git`. git refuses it in a tree. */
const SHORT_GIT = /^git~\d+$/i;

/** Returns whether files of a site can be at this path or below it. */
export function isInSite(path: string): boolean {
  return TOP_FILE.test(path) || IN_DIRECTORY.test(`${path}/`);
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

/** Returns the number of bytes of a text in UTF-8. */
export function byteLength(text: string): number {
  return new TextEncoder().encode(text).length;
}

/** Checks a save before any request. */
export function checkSave({ changes, message, author }: Save): void {
  checkMessage(message);
  gitUser(author);
  if (changes.length === 0) throw invalid('The save has no change.');
  if (changes.length > CHANGES_MAX) {
    throw new GitHubError('too_many_changes', `The save has ${changes.length} changes, and at most ${CHANGES_MAX} are possible; save in parts.`);
  }
  changes.forEach(checkChange);
  if (new Set(changes.map(({ path }) => path)).size < changes.length) throw invalid('The save has two changes of one file.');
  const bytes = changes.reduce((sum, { text }) => sum + byteLength(text ?? ''), 0);
  if (bytes > SAVE_BYTES_MAX) {
    throw new GitHubError('save_too_large', `The changed files have ${bytes} bytes, and at most ${SAVE_BYTES_MAX} are possible; save in parts.`);
  }
}

function checkMessage(message: string): void {
  const bytes = byteLength(message);
  if (bytes > MESSAGE_BYTES_MAX) {
    throw new GitHubError('message_too_long', `The message has ${bytes} bytes, and at most ${MESSAGE_BYTES_MAX} are possible.`);
  }
  if (!message.trim() || message.includes('\0')) throw invalid('The save has no message, or one with a NUL.');
}

function checkChange({ path, text, etag }: Change): void {
  if (!isSitePath(path)) throw new GitHubError('invalid_path', `${JSON.stringify(path)} is not the path of a file of a site.`);
  if (text === null && etag === null) throw invalid(`${path} does not exist, and cannot be removed.`);
  if (text !== null && /\p{Cs}/u.test(text)) throw new GitHubError('not_utf8', `The text of ${path} has half of a surrogate pair.`);
  checkFileBytes(path, byteLength(text ?? ''));
}

export function checkFileBytes(path: string, bytes: number): void {
  if (bytes <= FILE_BYTES_MAX) return;
  throw new GitHubError('file_too_large', `${path} has ${bytes} bytes, and at most ${FILE_BYTES_MAX} are possible.`);
}

/** Checks the number and the sum of the sizes of all files of a site. */
export function checkSiteSize(sizes: number[]): void {
  const files = sizes.length;
  const bytes = sizes.reduce((sum, size) => sum + size, 0);
  if (files > FILES_MAX) throw new GitHubError('too_many_files', `The site has ${files} files, and at most ${FILES_MAX} are possible.`);
  if (bytes > SITE_BYTES_MAX) {
    throw new GitHubError('site_too_large', `The files of the site have ${bytes} bytes, and at most ${SITE_BYTES_MAX} are possible.`);
  }
}

/** Returns the user without the characters that git does not allow in an author. */
export function gitUser({ name, email }: User): User {
  const clean = (text: string) => text.replace(/[\p{Cc}\p{Cs}<>\s]+/gu, ' ').trim();
  const user = { name: clean(name), email: clean(email) };
  // git removes these characters from the ends of a name, and refuses an empty one.
  if (Object.values(user).some((text) => !text.replace(/[\s.,:;"'\\]/g, ''))) throw invalid('The author has no usable name or e-mail address.');
  return user;
}

function invalid(message: string): GitHubError {
  return new GitHubError('invalid_save', message);
}
