/** The data of this browser for its own pages. It is no part of the visitor's profile, and it needs the same consent. */
type Key = 'recent' | 'member';

function isAllowed(): boolean {
  return /(^|;\s*)px_consent=[1p]/.test(document.cookie);
}

/** Returns a stored value, or another one if it is absent. */
export function readStored<T>(key: Key, absent: T): T {
  try {
    return JSON.parse(localStorage.getItem(key) ?? 'null') ?? absent;
  } catch {
    return absent;
  }
}

/** Stores a value if the visitor has agreed. `null` needs no consent. */
export function writeStored(key: Key, value: unknown): void {
  if (value !== null && !isAllowed()) return;
  try {
    if (value === null) localStorage.removeItem(key);
    else localStorage.setItem(key, JSON.stringify(value));
  } catch {
    // Storage is blocked: the page works without it.
  }
}
