import { type Bounds, checkFileBytes, checkSiteSize, isInSite, isSitePath } from '../check.js';
import { StorageError } from '../errors.js';
import { GITHUB_FILES_MAX, GITHUB_SAVE_BYTES_MAX } from '../limits.js';
import type { SiteFile } from '../storage.js';
import { listAt, shaAt, textAt, valueAt } from './answers.js';
import type { Call } from './api.js';
import { GitHubError } from './errors.js';

/** Age at which the name of the default branch is asked for again. */
const DEFAULT_BRANCH_MS = 60_000;
/** Bytes of the cached files, for a whole site of the largest size. At the limit the files that were not used for longest are dropped. */
const CACHE_BYTES_MAX = 64 << 20;
/** The commits of one answer: the bound of GitHub. */
export const COMMITS_MAX = 100;

/** The bounds of a site on GitHub. */
export const BOUNDS: Bounds = { files: GITHUB_FILES_MAX, saveBytes: GITHUB_SAVE_BYTES_MAX };

/** The last commit of the branch. */
export interface Head {
  branch: string;
  /** The owner of the repository, for the names of branches of pull requests. */
  owner: string;
  commit: string;
  tree: string;
}

/** An entry of a git tree. */
export interface Entry {
  path: string;
  mode: string;
  type: string;
  sha: string;
  bytes: number;
}

/** The reading side of a repository. */
export interface Repository {
  head(call: Call): Promise<Head>;
  /** Returns all entries below the site directory that are in the place of site files, by their paths there. Null: it does not exist. */
  entries(call: Call, tree: string): Promise<Map<string, Entry> | null>;
  files(call: Call, entries: Entry[]): Promise<Record<string, SiteFile>>;
}

export interface RepositoryOptions {
  directory: string;
  branch?: string;
  now(): number;
}

export function isFile({ type, mode }: Entry): boolean {
  return type === 'blob' && mode !== '120000';
}

/** Returns the entries of the site's files, after a check of their number and sizes. */
export function siteFiles(entries: Map<string, Entry>): Entry[] {
  const files = [...entries.values()].filter((entry) => isFile(entry) && isSitePath(entry.path));
  files.forEach(({ path, bytes }) => checkFileBytes(path, bytes));
  checkEntries(files.map(({ bytes }) => bytes));
  return files;
}

/** Checks the number and the sum of the sizes of all files of a site. */
export function checkEntries(sizes: number[]): void {
  checkSiteSize(sizes.length, sizes.reduce((sum, size) => sum + size, 0), BOUNDS);
}

export function createRepository({ directory, branch: fixed, now }: RepositoryOptions): Repository {
  const cached = createCache();
  let known: { owner: string; branch: string; until: number } | undefined;

  async function facts(call: Call) {
    if (known && now() < known.until) return known;
    const answer = await call.request('GET', { path: '' });
    known = { owner: textAt(answer, 'owner', 'login'), branch: textAt(answer, 'default_branch'), until: now() + DEFAULT_BRANCH_MS };
    return known;
  }

  /** GitHub redirects from the old name of a renamed branch. The answer has the new name. */
  async function headOf(call: Call, owner: string, name: string): Promise<Head | null> {
    const answer = await unlessMissing(call.request('GET', { path: `/branches/${encodeURIComponent(name)}` }));
    if (answer === null) return null;
    return {
      branch: textAt(answer, 'name'),
      owner,
      commit: shaAt(answer, 'commit', 'sha'),
      tree: shaAt(answer, 'commit', 'commit', 'tree', 'sha'),
    };
  }

  async function head(call: Call): Promise<Head> {
    const first = await facts(call);
    const found = await headOf(call, first.owner, fixed ?? first.branch);
    if (found) return found;
    known = undefined;
    const second = await facts(call);
    const again = fixed !== undefined || second.branch === first.branch ? null : await headOf(call, second.owner, second.branch);
    if (again) return again;
    throw new GitHubError(
      'not_found',
      `The repository has no branch ${fixed ?? second.branch}. Make its first commit, or check the option "branch".`,
    );
  }

  async function treeOf(call: Call, sha: string, isRecursive: boolean) {
    const answer = await call.request('GET', { path: `/git/trees/${sha}${isRecursive ? '?recursive=1' : ''}` });
    return { entries: listAt(answer, 'tree').map(entryOf), isTruncated: valueAt(answer, 'truncated') === true };
  }

  /** Returns the tree of the site directory, or null. */
  async function siteTree(call: Call, root: string): Promise<string | null> {
    let sha = root;
    for (const name of directory.split('/').filter(Boolean)) {
      const { entries, isTruncated } = await treeOf(call, sha, false);
      const found = entries.find(({ path, type }) => path === name && type === 'tree');
      if (!found && isTruncated) throw tooLarge();
      if (!found) return null;
      sha = found.sha;
    }
    return sha;
  }

  async function entries(call: Call, root: string): Promise<Map<string, Entry> | null> {
    const found = new Map<string, Entry>();

    /** GitHub cuts the listing of a large tree. Then each of its directories is listed on its own. */
    async function read(sha: string, prefix: string): Promise<void> {
      const whole = await treeOf(call, sha, true);
      const level = whole.isTruncated ? await treeOf(call, sha, false) : whole;
      if (level.isTruncated) throw tooLarge();
      const own = level.entries.map((entry) => ({ ...entry, path: prefix + entry.path })).filter(({ path }) => isInSite(path));
      for (const entry of own) found.set(entry.path, entry);
      if (!whole.isTruncated) return;
      await Promise.all(own.map((entry) => entry.type === 'tree' && read(entry.sha, `${entry.path}/`)));
    }

    const sha = await siteTree(call, root);
    if (sha === null) return null;
    await read(sha, '');
    return found;
  }

  async function readBlob(call: Call, { sha, path }: Entry): Promise<SiteFile> {
    const present = cached.get(sha);
    if (present) return present;
    const answer = await call.request('GET', { path: `/git/blobs/${sha}` });
    const bytes = fromBase64(textAt(answer, 'content'));
    checkFileBytes(path, bytes.length);
    const text = textOf(bytes);
    const header = new TextEncoder().encode(`blob ${bytes.length}\0`);
    const isIntact = (await hexHash('SHA-1', header, bytes)) === sha;
    if (!isIntact) throw new GitHubError('bad_answer', `GitHub sent other bytes than those of ${path}; try again.`);
    if (text === null) throw new StorageError('not_utf8', `${path} is not UTF-8. Save it as UTF-8 in the repository.`);
    const file = { text, etag: await hexHash('SHA-256', bytes) };
    cached.set(sha, file, bytes.length);
    return file;
  }

  async function files(call: Call, wanted: Entry[]): Promise<Record<string, SiteFile>> {
    const unique = new Map(wanted.map((entry) => [entry.sha, entry]));
    const read = new Map(await Promise.all([...unique].map(async ([sha, entry]) => [sha, await readBlob(call, entry)] as const)));
    return Object.fromEntries(wanted.map(({ path, sha }) => [path, read.get(sha)!]));
  }

  return { head, entries, files };
}

/** Returns null for an answer that there is no such thing. */
export async function unlessMissing<T>(answer: Promise<T>): Promise<T | null> {
  return answer.catch((error) => {
    if (error instanceof GitHubError && error.code === 'not_found') return null;
    throw error;
  });
}

function entryOf(answer: unknown): Entry {
  const bytes = valueAt(answer, 'size');
  const entry = { path: textAt(answer, 'path'), mode: textAt(answer, 'mode'), type: textAt(answer, 'type'), sha: shaAt(answer, 'sha') };
  return { ...entry, bytes: typeof bytes === 'number' ? bytes : 0 };
}

function tooLarge(): StorageError {
  return new StorageError('too_many_files', 'A directory of the repository has more files than GitHub lists. Use a directory with fewer files.');
}

/** Returns the bytes. An answer without base64 has none, which its SHA-1 shows. */
function fromBase64(text: string): Uint8Array {
  try {
    return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  } catch {
    return new Uint8Array();
  }
}

/** Returns null for bytes that are not UTF-8. A byte order mark stays. */
function textOf(bytes: Uint8Array): string | null {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null;
  }
}

export async function hexHash(algorithm: 'SHA-1' | 'SHA-256', ...parts: Uint8Array[]): Promise<string> {
  const bytes = await new Blob(parts as BlobPart[]).arrayBuffer();
  return [...new Uint8Array(await crypto.subtle.digest(algorithm, bytes))].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** Makes a cache of files by the SHA-1 of their blobs, which never change. */
function createCache() {
  const files = new Map<string, { file: SiteFile; bytes: number }>();
  let total = 0;

  function remove(sha: string) {
    total -= files.get(sha)?.bytes ?? 0;
    files.delete(sha);
  }

  function get(sha: string): SiteFile | undefined {
    const present = files.get(sha);
    if (!present) return undefined;
    files.delete(sha);
    files.set(sha, present);
    return present.file;
  }

  function set(sha: string, file: SiteFile, bytes: number) {
    remove(sha);
    files.set(sha, { file, bytes });
    total += bytes;
    for (const oldest of files.keys()) {
      if (total <= CACHE_BYTES_MAX) break;
      remove(oldest);
    }
  }

  return { get, set };
}
