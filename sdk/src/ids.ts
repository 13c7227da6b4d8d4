import { cookiesOf } from './cookies.js';

/**
 * The form of an ID that the server accepts (`interface.md` section 5): visible ASCII, 1 to 128 bytes, and no text that broken
 * clients send in place of an ID. One such ID would merge strangers. `[object Object]` has a space.
 */
const USABLE = /^(?!(anonymous|null|undefined|none|nil|[0-]+|true|false|nan|\{\})$)[!-~]{1,128}$/i;

/** Returns whether the server records events with this ID. */
export function isUsableId(id: string): boolean {
  return USABLE.test(id);
}

/** Returns the first usable ID of a cookie, as Edge does: of two scopes, one may hold a placeholder. */
export function idOf(cookies: string, name: string): string | undefined {
  return cookiesOf(cookies, name).find(isUsableId);
}

/** Returns a version 4 UUID. `crypto.randomUUID` is undefined on plain http. */
export function uuid(): string {
  return '10000000-1000-4000-8000-100000000000'.replace(/[018]/g, (digit) =>
    ((digit as unknown as number) ^ (crypto.getRandomValues(new Uint8Array(1))[0]! & (15 >> (+digit / 4)))).toString(16),
  );
}
