// Reads paths for the module, and carries out its changes.
//
// The module writes `/` between the names of a path, which Windows accepts too. The paths that it gets from here have no `\`.
import { closeSync, constants, fsyncSync, fstatSync, lstatSync, mkdirSync, openSync, readSync, readdirSync, realpathSync, renameSync, statSync, unlinkSync, writeFileSync, writeSync } from 'node:fs';
import path from 'node:path';

const IS_WINDOWS = process.platform === 'win32';

// Attempts to give a file its name on Windows, where a scanner or an editor may have the old one open, and the pause between them.
const RENAME_ATTEMPTS = 10;
const RENAME_PAUSE_MS = 50;

/** Returns a path of this machine as the module writes it. */
export function toModulePath(text) {
  return IS_WINDOWS ? text.replaceAll('\\', '/') : text;
}

/** Returns an error as the module reads it: code, number and text. Windows has other numbers than the texts of the module. */
export function describeError(error) {
  if (error.code === undefined) return ` 0 ${error.message}`;
  const number = IS_WINDOWS ? 0 : Math.abs(error.errno ?? 0);
  const text = error.message.replace(/^\w+: /, '').split(', ')[0];
  return `${error.code} ${number} ${text}`;
}

/** Returns the absolute path without links. A path that does not exist is below the real path of the directory above it. */
function realPathOf(file) {
  const absolute = path.resolve(file);
  try {
    return realpathSync.native(absolute);
  } catch {
    const parent = path.dirname(absolute);
    return parent === absolute ? absolute : path.join(realPathOf(parent), path.basename(absolute));
  }
}

/** Returns the entries of a directory: for each its kind, its name and a zero byte. The kind is in upper case if the name is not UTF-8. */
function listDirectory(directory) {
  const entries = readdirSync(directory, { withFileTypes: true, encoding: 'buffer' });
  const lines = entries.map((entry) => {
    const name = Buffer.from(entry.name).toString();
    const kind = entry.isSymbolicLink() ? 'l' : entry.isDirectory() ? 'd' : entry.isFile() ? 'f' : 's';
    return `${Buffer.from(name).equals(entry.name) ? kind : kind.toUpperCase()}${name}\0`;
  });
  return Buffer.from(lines.join(''));
}

/** Returns the length of a file and its first bytes. */
function readFirstBytes(file, bytesMax) {
  const descriptor = openSync(file, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
  try {
    let length = fstatSync(descriptor).size;
    const content = Buffer.alloc(Math.min(length, bytesMax));
    let read = 0;
    while (read < content.length) {
      const more = readSync(descriptor, content, read, content.length - read, read);
      // The file was cut meanwhile.
      if (more === 0) length = read;
      if (more === 0) break;
      read += more;
    }
    return { length, content: content.subarray(0, read) };
  } finally {
    closeSync(descriptor);
  }
}

/** Looks at a path. Returns the fields of a record `fact` after the path. A file has up to `bytesMax` of its bytes. */
export function lookAt(file, bytesMax) {
  const real = toModulePath(realPathOf(file));
  const fact = (kind, { length = 0, error = '', content = '' } = {}) => [real, kind, `${length}`, error, content];
  let status;
  try {
    status = statSync(file);
  } catch (error) {
    return fact('unreadable', { error: describeError(error) });
  }
  try {
    if (status.isDirectory()) return fact('directory', { content: listDirectory(file) });
    if (!status.isFile()) return fact('special');
    return fact('file', bytesMax === 0 ? { length: status.size } : readFirstBytes(file, bytesMax));
  } catch (error) {
    return fact(status.isDirectory() ? 'directory' : 'file', { length: status.size, error: describeError(error) });
  }
}

function pause(milliseconds) {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, milliseconds);
}

function renameFile(from, to) {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return renameSync(from, to);
    } catch (error) {
      if (!IS_WINDOWS || attempt === RENAME_ATTEMPTS || !['EPERM', 'EACCES', 'EBUSY'].includes(error.code)) throw error;
      pause(RENAME_PAUSE_MS);
    }
  }
}

/** Writes a file that appears under its name complete and durable. */
function replaceFile(file, content) {
  const present = lstatSync(file, { throwIfNoEntry: false });
  if (present && !present.isFile() && !present.isSymbolicLink()) throw new Error('the path exists and is not a regular file');
  const directory = path.dirname(file);
  const temporary = path.join(directory, `.${path.basename(file)}.${process.pid}.tmp`);
  const descriptor = openSync(temporary, 'w');
  try {
    try {
      writeAll(descriptor, content);
      fsyncSync(descriptor);
    } finally {
      closeSync(descriptor);
    }
    renameFile(temporary, file);
  } catch (error) {
    unlinkSync(temporary);
    throw error;
  }
  // Windows cannot sync a directory.
  if (IS_WINDOWS) return;
  const opened = openSync(directory, 'r');
  try {
    fsyncSync(opened);
  } finally {
    closeSync(opened);
  }
}

/** Writes bytes to a descriptor. A pipe that is full for now gets the rest later. */
export function writeAll(descriptor, content) {
  for (let written = 0; written < content.length; ) {
    try {
      written += writeSync(descriptor, content, written);
    } catch (error) {
      if (error.code !== 'EAGAIN') throw error;
      pause(1);
    }
  }
}

/** Returns the status of a path, or null if it has none. */
function statusOf(file) {
  try {
    return statSync(file);
  } catch {
    return null;
  }
}

/** Creates a directory, and those above it. The recursive form of Node does not end where a file system refuses new directories. */
function createDirectories(directory) {
  try {
    return mkdirSync(directory);
  } catch (error) {
    const parent = path.dirname(directory);
    if (error.code !== 'ENOENT' || parent === directory || statusOf(parent)) return requireDirectory(directory, error);
    createDirectories(parent);
  }
  try {
    return mkdirSync(directory);
  } catch (error) {
    return requireDirectory(directory, error);
  }
}

/** Throws the error of a directory that could not be created, unless it exists. */
function requireDirectory(directory, error) {
  if (!statusOf(directory)?.isDirectory()) throw error;
}

/** Carries out a change of the module. */
export function apply({ kind, file, content }) {
  switch (kind) {
    case 'directory':
      return createDirectories(file);
    case 'write':
      return writeFileSync(file, content);
    case 'replace':
      return replaceFile(file, content);
    case 'delete':
      return unlinkSync(file);
    default:
      throw new Error(`unknown change ${kind}`);
  }
}
