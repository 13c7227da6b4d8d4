// The git work tree of a site directory.
import { execFile, execFileSync } from 'node:child_process';
import { lstatSync } from 'node:fs';
import path from 'node:path';
import { checkFileBytes, checkSiteSize, isSitePath } from './check.js';
import { StorageError } from './errors.js';
import { GIT_BYTES_MAX, GIT_MS, HISTORY_MAX } from './limits.js';
import { siteFile } from './site-directory.js';
import type { Revision, SiteFile, User } from './storage.js';

export interface Git {
  /** Commits the present texts of these files, and nothing else. Without a change it makes no commit. */
  commit(paths: string[], message: string, author: User): Promise<void>;
  history(limit: number): Promise<Revision[]>;
  at(revision: string): Promise<Record<string, SiteFile>>;
}

/** Returns the git work tree around a directory, or null. */
export function openGit(root: string): Git | null {
  try {
    const words = ['-C', root, 'rev-parse', '--is-inside-work-tree'];
    const answer = execFileSync('git', words, { env: environment(), stdio: ['ignore', 'pipe', 'ignore'], encoding: 'utf8', timeout: GIT_MS });
    if (answer.trim() !== 'true') return null;
  } catch {
    return null;
  }
  return {
    commit: (paths, message, author) => commit(root, paths, message, author),
    history: (limit) => history(root, limit),
    at: (revision) => at(root, revision),
  };
}

async function commit(root: string, paths: string[], message: string, author: User): Promise<void> {
  const tracked = new Set((await text(root, ['ls-files', '-z', '--', ...paths])).split('\0'));
  const isPresent = (name: string) => lstatSync(path.join(root, name), { throwIfNoEntry: false }) !== undefined;
  const added = paths.filter((name) => !tracked.has(name) && isPresent(name));
  const known = paths.filter((name) => tracked.has(name) || isPresent(name));
  if (known.length === 0) return;
  try {
    // `commit --only` takes the texts from the work tree, so that other staged changes stay as they are.
    if (added.length > 0) await text(root, ['add', '--intent-to-add', '--', ...added]);
    if ((await text(root, ['status', '--porcelain', '--', ...known])) === '') return;
    await run(root, ['commit', '--quiet', '--only', '-F', '-', '--', ...known], message, author);
  } catch (error) {
    if (added.length > 0) await text(root, ['rm', '--cached', '--force', '--quiet', '--ignore-unmatch', '--', ...added]).catch(() => '');
    throw error;
  }
}

async function history(root: string, limit: number): Promise<Revision[]> {
  if (!(await hasHead(root))) return [];
  const count = Math.max(1, Math.min(Math.trunc(limit) || 1, HISTORY_MAX));
  const log = await text(root, ['log', `--max-count=${count}`, '--no-show-signature', '--format=%H%x00%an%x00%aI%x00%B%x00', '--', '.']);
  const members = log.split('\0');
  const revisions: Revision[] = [];
  for (let n = 0; n + 4 <= members.length; n += 4) {
    const [revision, author, at, message] = members.slice(n, n + 4) as [string, string, string, string];
    revisions.push({ revision: revision.trim(), message: message.trim(), author, at });
  }
  return revisions;
}

async function at(root: string, revision: string): Promise<Record<string, SiteFile>> {
  const isCommit = /^([0-9a-f]{40}|[0-9a-f]{64})$/.test(revision) && (await hasHead(root));
  const isInHistory = isCommit && (await run(root, ['merge-base', '--is-ancestor', revision, 'HEAD']).then(() => true, () => false));
  if (!isInHistory) throw new StorageError('revision_not_found', 'The history has no such revision.');
  const entries = (await text(root, ['ls-tree', '-r', '-z', '-l', revision])).split('\0').flatMap(parseEntry);
  checkSiteSize(entries.length, entries.reduce((sum, { bytes }) => sum + bytes, 0));
  for (const { name, bytes } of entries) checkFileBytes(name, bytes);
  const blobs = await run(root, ['cat-file', '--batch'], entries.map(({ id }) => `${id}\n`).join(''));
  return readBlobs(entries, blobs);
}

interface Entry {
  id: string;
  bytes: number;
  name: string;
}

/** Reads a line of `ls-tree`: mode, type, ID, bytes and path. Leaves out links and files that are no part of a site. */
function parseEntry(line: string): Entry[] {
  const [, id, bytes, name] = /^100\d{3} blob ([0-9a-f]+) +(\d+)\t(.*)$/s.exec(line) ?? [];
  return name !== undefined && isSitePath(name) ? [{ id: id!, bytes: Number(bytes), name }] : [];
}

/** Reads the output of `cat-file`: for each file a line with its bytes, its bytes, and the end of a line. */
function readBlobs(entries: Entry[], blobs: Buffer): Record<string, SiteFile> {
  const files: Record<string, SiteFile> = {};
  let offset = 0;
  for (const { name, bytes } of entries) {
    const begin = blobs.indexOf('\n', offset) + 1;
    files[name] = siteFile(name, blobs.subarray(begin, begin + bytes));
    offset = begin + bytes + 1;
  }
  return files;
}

async function hasHead(root: string): Promise<boolean> {
  return run(root, ['rev-parse', '--quiet', '--verify', 'HEAD']).then(() => true, () => false);
}

async function text(root: string, words: string[]): Promise<string> {
  return (await run(root, words)).toString('utf8');
}

/** Runs git. Rejects with `git_failed`. */
function run(root: string, words: string[], input = '', author?: User): Promise<Buffer> {
  const options = { env: environment(author), encoding: 'buffer' as const, timeout: GIT_MS, killSignal: 'SIGKILL' as const, maxBuffer: GIT_BYTES_MAX };
  return new Promise((resolve, reject) => {
    const child = execFile('git', ['-C', root, ...words], options, (error, output) => {
      if (!error) return resolve(output);
      reject(new StorageError('git_failed', `git ${words[0]} failed. The log of the server has the cause.`, { cause: error }));
    });
    // A git that fails may not read its input.
    child.stdin!.on('error', () => {});
    child.stdin!.end(input);
  });
}

/** The environment of git, without variables that name another repository. The author is also the committer: a server may have no name. */
function environment(author?: User): NodeJS.ProcessEnv {
  const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith('GIT_'));
  const who = author && { GIT_AUTHOR_NAME: author.name, GIT_AUTHOR_EMAIL: author.email, GIT_COMMITTER_NAME: author.name, GIT_COMMITTER_EMAIL: author.email };
  return { ...Object.fromEntries(inherited), GIT_TERMINAL_PROMPT: '0', GIT_LITERAL_PATHSPECS: '1', GIT_OPTIONAL_LOCKS: '0', ...who } as NodeJS.ProcessEnv;
}
