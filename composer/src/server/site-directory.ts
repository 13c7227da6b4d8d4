// Reads the files of a site directory, as `parallax compile` does.
import { createHash } from 'node:crypto';
import { constants, type Dirent, promises as fs } from 'node:fs';
import path from 'node:path';
import { checkFileBytes, checkSiteSize, isSiteDirectory, isSitePath } from './check.js';
import { StorageError } from './errors.js';
import { FILE_BYTES_MAX, READS_MAX } from './limits.js';
import type { SiteFile } from './storage.js';

/** The names of our own files begin with this. The commands of the program ignore names with a dot. */
export const OWN = '.parallax-';
/** Files that a killed process left. Nothing refers to them once this process has the lock and no journal exists. */
const LEFT = /^\.parallax-(new-\d+|lock-.+|journal-.+)$/;

export interface SiteDirectory {
  /** By path, in the order of the paths. */
  files: Map<string, SiteFile>;
  bytes: number;
  /** Paths of files that a killed process left. */
  left: string[];
}

export function hashOf(bytes: string | Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

/** Returns the hash of all paths and ETags. */
export function revisionOf(files: Map<string, { etag: string }>): string {
  const lines = [...files].sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, { etag }]) => `${etag} ${name}\n`);
  return hashOf(lines.join(''));
}

/** Reads all files of a site. `root` has no symbolic link. */
export async function readSiteDirectory(root: string): Promise<SiteDirectory> {
  const left: string[] = [];
  const found: [name: string, location: string][] = [];
  await scan(root, '', found, left);
  found.sort(([a], [b]) => (a < b ? -1 : 1));
  const site: SiteDirectory = { files: new Map(found.map(([name]) => [name, { text: '', etag: '' }])), bytes: 0, left };
  const queue = found.values();
  await Promise.all(Array.from({ length: READS_MAX }, () => readFiles(queue, site)));
  return site;
}

async function scan(root: string, directory: string, found: [string, string][], left: string[]): Promise<void> {
  for (const entry of await fs.readdir(path.join(root, directory), { withFileTypes: true })) {
    const name = directory === '' ? entry.name : `${directory}/${entry.name}`;
    if (LEFT.test(entry.name)) left.push(name);
    else if (entry.isDirectory() && isSiteDirectory(name)) await scan(root, name, found, left);
    else if (isSitePath(name)) await addFile(root, name, entry, found);
  }
}

/** Adds a file. A symbolic link counts if it leads to a file of the same site. */
async function addFile(root: string, name: string, entry: Dirent, found: [string, string][]): Promise<void> {
  let location = path.join(root, name);
  if (entry.isSymbolicLink()) {
    const target = await fs.realpath(location).catch(() => '');
    if (!isSitePath(path.relative(root, target).replaceAll(path.sep, '/'))) return;
    location = target;
  } else if (!entry.isFile()) return;
  found.push([name, location]);
  checkSiteSize(found.length, 0);
}

async function readFiles(queue: Iterable<[string, string]>, site: SiteDirectory): Promise<void> {
  for (const [name, location] of queue) {
    const bytes = await readBounded(name, location);
    if (!bytes) {
      site.files.delete(name);
      continue;
    }
    site.bytes += bytes.length;
    checkSiteSize(0, site.bytes);
    site.files.set(name, siteFile(name, bytes));
  }
}

/** Returns the bytes of a regular file. Returns null if it was removed, or is something else. */
async function readBounded(name: string, location: string): Promise<Uint8Array | null> {
  let handle;
  try {
    handle = await fs.open(location, READ_FLAGS);
    const { size } = await handle.stat().then((stat) => (stat.isFile() ? stat : { size: -1 }));
    if (size < 0) return null;
    checkFileBytes(name, size);
    const buffer = Buffer.allocUnsafe(Math.min(size, FILE_BYTES_MAX));
    let length = 0;
    for (let read = 1; length < buffer.length && read > 0; length += read) {
      read = (await handle.read(buffer, length, buffer.length - length, length)).bytesRead;
    }
    return buffer.subarray(0, length);
  } catch (error) {
    if (['ENOENT', 'ELOOP', 'ENOTDIR'].includes((error as NodeJS.ErrnoException).code ?? '')) return null;
    throw error;
  } finally {
    await handle?.close();
  }
}

/** A link is not followed, and the open of a pipe does not wait. Windows has neither flag. */
const READ_FLAGS = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);

/** Returns the file with these bytes. A byte order mark stays in the text. */
export function siteFile(name: string, bytes: Uint8Array): SiteFile {
  try {
    return { text: new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes), etag: hashOf(bytes) };
  } catch (cause) {
    throw new StorageError('not_utf8', `${name} is not in UTF-8.`, { cause });
  }
}
