// One lock of a site directory for all processes.
//
// A lock file has its owner, and is linked into place with its content, so no process sees an empty one. Each lock file has a nonce.
// The lock of a dead owner is removed only by the owner of a second lock, which is named after the nonce. So a process that is slow to
// remove a dead lock cannot remove the lock of the next owner.
import { randomBytes } from 'node:crypto';
import { closeSync, linkSync, openSync, readFileSync, readlinkSync, statSync, unlinkSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import path from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { StorageError } from './errors.js';
import { LOCK_BYTES_MAX, LOCK_RETRY_MAX_MS, LOCK_RETRY_MIN_MS, LOCK_WAIT_MS } from './limits.js';
import { OWN } from './site-directory.js';

export const LOCK_NAME = `${OWN}lock`;

/** `publish` changes no file, so that listings go on beside it. */
export type Purpose = 'read' | 'save' | 'publish';

export interface Owner {
  nonce: string;
  purpose: Purpose;
  pid: number;
  /** The start of the process in ticks since the boot, which differs if the system uses the process ID again. Null if the system does not say. */
  started: string | null;
  host: string;
  /** The boot of the machine, and the namespace of its process IDs. Null if the system does not say. */
  boot: string | null;
  namespace: string | null;
}

/** The result of one try: a lock, or its present owner if another process has it. Both are null if the next try can succeed at once. */
export interface Attempt {
  lock: Lock | null;
  owner: Owner | null;
}

export interface Lock {
  release(): void;
}

/** Runs work under the lock. Rejects with `locked` after `waitMs`. */
export async function withLock<T>(root: string, purpose: Purpose, work: () => Promise<T>, waitMs = LOCK_WAIT_MS): Promise<T> {
  const lock = await takeLock(root, purpose, async () => false, waitMs);
  try {
    return await work();
  } finally {
    lock?.release();
  }
}

/** Waits for the lock. Returns null as soon as `isEnough` says so of an owner that has it. */
export async function takeLock(root: string, purpose: Purpose, isEnough: (owner: Owner) => Promise<boolean>, waitMs = LOCK_WAIT_MS): Promise<Lock | null> {
  const endsAt = performance.now() + waitMs;
  for (let pauseMs = LOCK_RETRY_MIN_MS; ; pauseMs = Math.min(2 * pauseMs, LOCK_RETRY_MAX_MS)) {
    const { lock, owner } = tryLock(path.join(root, LOCK_NAME), purpose);
    if (lock) return lock;
    if (owner && (await isEnough(owner))) return null;
    if (performance.now() >= endsAt) throw locked();
    await wait(pauseMs * (0.5 + Math.random()));
  }
}

function locked(): StorageError {
  const detail = `Another process has the lock of the site; try again. If no composer runs there, delete the file ${LOCK_NAME} of the site directory.`;
  return new StorageError('locked', detail);
}

/** Tries to take the lock once. Removes the lock of a dead owner. */
export function tryLock(file: string, purpose: Purpose): Attempt {
  const mine: Owner = { ...ownIdentity(), nonce: randomBytes(16).toString('hex'), purpose };
  if (linkNew(file, mine)) return { lock: { release: () => release(file, mine) }, owner: null };
  const owner = readOwner(file);
  if (owner && isDead(owner)) removeDead(file, owner);
  return { lock: null, owner };
}

/** Makes the lock file with its content. Returns false if there is one. */
function linkNew(file: string, mine: Owner): boolean {
  const own = `${path.join(path.dirname(file), LOCK_NAME)}-${mine.nonce}-new`;
  try {
    const handle = openSync(own, 'wx');
    try {
      writeFileSync(handle, JSON.stringify(mine));
    } finally {
      closeSync(handle);
    }
    linkSync(own, file);
    return true;
  } catch (error) {
    // The owner of the lock may have removed our own file, as one that a killed process left.
    if (['EEXIST', 'ENOENT'].includes((error as NodeJS.ErrnoException).code ?? '') && statSync(path.dirname(file), { throwIfNoEntry: false })) return false;
    throw error;
  } finally {
    // A later owner of the lock removes a file that stays.
    orNull(() => remove(own));
  }
}

/** Removes the lock. An error must not hide the result of the work. The lock then stays until this process ends. */
function release(file: string, mine: Owner): void {
  orNull(() => readOwner(file)?.nonce === mine.nonce && remove(file));
}

/** Removes the lock of a dead owner, unless another process is about to, or has done so. */
export function removeDead(file: string, dead: Owner): void {
  const claim = tryLock(`${path.join(path.dirname(file), LOCK_NAME)}-${dead.nonce}`, dead.purpose).lock;
  if (!claim) return;
  if (readOwner(file)?.nonce === dead.nonce) remove(file);
  claim.release();
}

export function readOwner(file: string): Owner | null {
  try {
    // The nonce becomes a part of a path, so its form is checked.
    if (statSync(file).size > LOCK_BYTES_MAX) return null;
    const owner = JSON.parse(readFileSync(file, 'utf8')) as Owner;
    return Number.isSafeInteger(owner.pid) && owner.pid > 0 && /^[0-9a-f]{32}$/.test(owner.nonce) ? owner : null;
  } catch {
    return null;
  }
}

/** Returns whether the owner has ended. Of a process of another machine or container, nothing is known. */
function isDead(owner: Owner): boolean {
  const here = ownIdentity();
  if (owner.host !== here.host) return false;
  if (owner.boot !== here.boot) return true;
  if (owner.namespace !== here.namespace) return false;
  if (owner.started !== null) return startOf(owner.pid) !== owner.started;
  try {
    process.kill(owner.pid, 0);
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ESRCH';
  }
}

type Identity = Omit<Owner, 'nonce' | 'purpose'>;
let identity: Identity | undefined;

function ownIdentity(): Identity {
  identity ??= {
    pid: process.pid,
    started: startOf(process.pid),
    host: hostname(),
    boot: orNull(() => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()),
    namespace: orNull(() => readlinkSync('/proc/self/ns/pid')),
  };
  return identity;
}

/** Returns the start of a process. Returns null if there is no such process, or if it has ended and waits for its parent. */
function startOf(pid: number): string | null {
  const stat = orNull(() => readFileSync(`/proc/${pid}/stat`, 'utf8'));
  // The name of the program, in parentheses, can have spaces and parentheses.
  const members = stat?.slice(stat.lastIndexOf(')') + 2).split(' ');
  return members && !/^[ZX]/.test(members[0]!) ? members[19]! : null;
}

function orNull<T>(read: () => T): T | null {
  try {
    return read();
  } catch {
    return null;
  }
}

function remove(file: string): void {
  try {
    unlinkSync(file);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
}
