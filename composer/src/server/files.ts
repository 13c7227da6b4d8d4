import { realpathSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { authorOf, byteLength, checkSave, checkSiteSize } from './check.js';
import { StorageError } from './errors.js';
import { type Git, openGit } from './git.js';
import { ChangedByHand, type Edit, type Journal, apply, finish, readJournal, removeIfPresent, removeJournal } from './journal.js';
import { LOCK_RETRY_MAX_MS, READINGS_MAX, SAVE_ATTEMPTS_MAX } from './limits.js';
import { LOCK_NAME, readOwner, takeLock, withLock } from './lock.js';
import { type SiteDirectory, hashOf, readSiteDirectory, revisionOf } from './site-directory.js';
import type { Publisher } from './publisher.js';
import type { Conflict, Published, Save, Saved, SiteFile, Storage } from './storage.js';

export interface FileStorageOptions {
  /** The site directory, which exists. */
  directory: string;
  /** Commits each save. The directory is in a git work tree. Default: false. */
  commit?: boolean;
  /**
   * Publishes the files, which do not change meanwhile: `publishWithProgram`, `publishToSource`, or a function of the team. Saves wait
   * until it ends.
   */
  publish?: Publisher | ((revision: string) => Promise<Published>);
}

/**
 * Returns the storage of a site directory. Several processes can use it at the same time.
 *
 * A save changes all its files or none, also for a process that is killed: the next `list` or `save` finishes it. Other programs see
 * the files change one after the other within milliseconds, so let `publish` compile the site.
 */
export function fileStorage({ directory, commit = false, publish }: FileStorageOptions): Storage {
  const git = openGit(directory);
  if (commit && !git) throw new Error(`${directory} is not in a git work tree, which 'commit' needs.`);
  const context: Context = { directory, git, commits: commit };
  const publisher = typeof publish === 'function' ? { publish: ({ revision }: { revision: string }) => publish(revision) } : publish;
  return {
    list: () => guard(() => list(context)),
    save: (save) => guard(() => saveFiles(context, save)),
    ...(git && { history: (limit) => guard(() => git.history(limit)), at: (revision) => guard(() => git.at(revision)) }),
    ...(publisher && { publish: (revision) => guard(() => publishFiles(context, revision, publisher)) }),
    ...versionsOf(context, publisher),
  };
}

interface Context {
  directory: string;
  git: Git | null;
  commits: boolean;
}

/** Errors of a directory in which this process cannot take the lock. */
const CANNOT_LOCK = ['EROFS', 'EACCES', 'EPERM', 'ENOSPC', 'EDQUOT'];

async function list(context: Context): Promise<{ revision: string; files: Record<string, SiteFile> }> {
  const root = rootOf(context);
  let site: SiteDirectory | null = null;
  const isEnough = async (owner: { purpose: string; nonce: string }) => {
    site = owner.purpose === 'publish' ? await readBesidePublication(root, owner.nonce) : null;
    return site !== null;
  };
  try {
    const lock = await takeLock(root, 'read', isEnough);
    try {
      if (lock) site = await readLocked(context, root);
    } finally {
      lock?.release();
    }
  } catch (error) {
    if (!CANNOT_LOCK.includes(codeOf(error))) throw error;
    site = await readUntilEqual(root);
  }
  const { files } = site!;
  return { revision: revisionOf(files), files: Object.fromEntries(files) };
}

async function saveFiles(context: Context, save: Save): Promise<Saved | Conflict> {
  checkSave(save);
  const root = rootOf(context);
  return withLock(root, 'save', async () => {
    for (let n = 1; ; n++) {
      const site = await readLocked(context, root);
      const conflict = conflictOf(site, save);
      if (conflict) return conflict;
      try {
        return await write(context, root, site, save);
      } catch (error) {
        if (!(error instanceof ChangedByHand)) throw error;
        if (n === SAVE_ATTEMPTS_MAX) throw new StorageError('storage_failed', 'Another program changes the files of the site all the time.', { cause: error });
      }
    }
  });
}

async function publishFiles(context: Context, revision: string, publisher: Publisher): Promise<Published> {
  const root = rootOf(context);
  return withLock(root, 'publish', async () => {
    const { files } = await readLocked(context, root);
    if (revisionOf(files) !== revision) throw new StorageError('revision_changed', 'The files have changed since this revision; look at them, and publish again.');
    return publisher.publish({ revision, files });
  });
}

/** Returns the operations on published versions, if the publisher has them. */
function versionsOf(context: Context, publisher: Publisher | undefined): Pick<Storage, 'versions' | 'rollback'> {
  const { versions, rollback } = publisher ?? {};
  if (!versions || !rollback) return {};
  return {
    versions: () => guard(async () => versions((await list(context)).files)),
    rollback: (version, newest) =>
      guard(() => {
        const root = rootOf(context);
        return withLock(root, 'publish', async () => rollback(Object.fromEntries((await readLocked(context, root)).files), version, newest));
      }),
  };
}

/** Returns the present states of the files whose ETags differ, or null. */
function conflictOf({ files }: SiteDirectory, { changes }: Save): Conflict | null {
  const differing = changes.filter(({ path: name, etag }) => (files.get(name)?.etag ?? null) !== etag);
  if (differing.length === 0) return null;
  return { kind: 'conflict', revision: revisionOf(files), files: Object.fromEntries(differing.map(({ path: name }) => [name, files.get(name) ?? null])) };
}

async function write({ git, commits }: Context, root: string, site: SiteDirectory, { changes, message, author }: Save): Promise<Saved> {
  const next = new Map<string, { etag: string }>(site.files);
  const edits = changes.map(({ path: name, text, etag }): Edit => ({ path: name, text, old: etag, next: text === null ? null : hashOf(text) }));
  let bytes = site.bytes;
  for (const { path: name, text, next: etag } of edits) {
    bytes += byteLength(text ?? '') - byteLength(site.files.get(name)?.text ?? '');
    if (etag === null) next.delete(name);
    else next.set(name, { etag });
  }
  checkSiteSize(next.size, bytes);
  const needed = edits.filter((edit) => edit.old !== edit.next);
  const paths = needed.map((edit) => edit.path);
  if (needed.length > 0) {
    const by = authorOf(author);
    apply(root, needed, git && commits ? { message, author: by } : null);
    try {
      if (git && commits) await git.commit(paths, message, by);
    } catch (error) {
      throw revert(root, needed, site, error);
    }
    removeJournal(root);
  }
  return { kind: 'saved', revision: revisionOf(next) };
}

/** Writes the texts before the edits, because git refused the commit. Returns the error to report. */
function revert(root: string, edits: Edit[], site: SiteDirectory, cause: unknown): unknown {
  removeJournal(root);
  const reversed = edits.map(({ path: name, old, next }) => ({ path: name, text: site.files.get(name)?.text ?? null, old: next, next: old }));
  try {
    apply(root, reversed, null);
  } catch (error) {
    if (!(error instanceof ChangedByHand)) throw error;
    return new StorageError('git_failed', 'git commit failed, and a file was changed meanwhile. The new texts stay without a commit.', { cause });
  }
  removeJournal(root);
  return cause;
}

/** Finishes a begun save, reads all files, and removes files that a killed process left. */
async function readLocked(context: Context, root: string): Promise<SiteDirectory> {
  const journal = readJournal(root);
  if (journal) await recover(context, root, journal);
  const site = await readSiteDirectory(root);
  for (const name of site.left) removeIfPresent(path.join(root, name));
  return site;
}

async function recover({ git }: Context, root: string, journal: Journal): Promise<void> {
  try {
    finish(root, journal);
  } catch (error) {
    if (error instanceof ChangedByHand) return;
    throw error;
  }
  const { steps, commit } = journal;
  // If git refuses, the changes stay in the work tree. The client of that save was never told that it succeeded.
  if (git && commit) await git.commit(steps.map((step) => step.path), commit.message, commit.author).catch(() => {});
  removeJournal(root);
}

/** Reads the files while another process publishes them. Returns null if it has ended before, or has a save to finish. */
async function readBesidePublication(root: string, nonce: string): Promise<SiteDirectory | null> {
  if (readJournal(root)) return null;
  const site = await readSiteDirectory(root);
  return readOwner(path.join(root, LOCK_NAME))?.nonce === nonce ? site : null;
}

/** Reads the files without a lock, until two readings in a row are equal. */
async function readUntilEqual(root: string): Promise<SiteDirectory> {
  let last = '';
  for (let n = 0; n < READINGS_MAX; n++) {
    const site = await readSiteDirectory(root);
    const revision = revisionOf(site.files);
    if (!readJournal(root) && revision === last) return site;
    last = readJournal(root) ? '' : revision;
    await wait(n * LOCK_RETRY_MAX_MS);
  }
  throw new StorageError('unfinished', 'A save was begun, and this process may not write the files to finish it.');
}

function rootOf({ directory }: Context): string {
  return realpathSync(directory);
}

/** Runs an operation. Errors of the operating system become refusals of the storage. */
async function guard<T>(run: () => Promise<T>): Promise<T> {
  try {
    return await run();
  } catch (error) {
    throw error instanceof StorageError ? error : refusalOf(error);
  }
}

function refusalOf(cause: unknown): unknown {
  const code = codeOf(cause);
  const refusal = (name: ConstructorParameters<typeof StorageError>[0], message: string) => new StorageError(name, message, { cause });
  if (code === 'ENOSPC' || code === 'EDQUOT') return refusal('disk_full', 'The disk of the site directory is full. Nothing was saved.');
  if (CANNOT_LOCK.includes(code)) return refusal('read_only', 'The server may not read or write the files of the site directory.');
  if (code === 'ENOENT' || code === 'ENOTDIR') return refusal('no_directory', 'The site directory, or a part of it, is missing.');
  return code === '' ? cause : refusal('storage_failed', `The files of the site cannot be read or written (${code}).`);
}

function codeOf(error: unknown): string {
  const code = (error as NodeJS.ErrnoException | null)?.code;
  return typeof code === 'string' ? code : '';
}
