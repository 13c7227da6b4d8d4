/** The signed cookie of a preview: `<expiry in seconds>.<base64url of HMAC-SHA-256 of "px-preview <expiry>">`. */
export const PREVIEW_COOKIE = 'px_preview';

const encoder = new TextEncoder();

function keyOf(secret: string, usage: 'sign' | 'verify'): Promise<CryptoKey> {
  return crypto.subtle.importKey('raw', encoder.encode(secret), { name: 'HMAC', hash: 'SHA-256' }, false, [usage]);
}

function messageOf(expiry: number): Uint8Array<ArrayBuffer> {
  return encoder.encode(`px-preview ${expiry}`);
}

/** Returns the value of the cookie that is valid until `expiry`, in seconds since 1970. */
export async function signPreview(secret: string, expiry: number): Promise<string> {
  const signature = await crypto.subtle.sign('HMAC', await keyOf(secret, 'sign'), messageOf(expiry));
  const base64 = btoa(String.fromCharCode(...new Uint8Array(signature)));
  return `${expiry}.${base64.replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '')}`;
}

/** Returns whether the cookie was signed with the secret and has not expired. */
export async function isSignedPreview(secret: string | undefined, cookie: string | undefined): Promise<boolean> {
  const [, expiry, base64] = /^([0-9]{1,12})\.([A-Za-z0-9_-]{43})$/.exec(cookie ?? '') ?? [];
  if (!secret || !expiry || !base64 || Number(expiry) * 1000 <= Date.now()) return false;
  const bytes = atob(base64.replaceAll('-', '+').replaceAll('_', '/'));
  const signature = Uint8Array.from(bytes, (character) => character.charCodeAt(0));
  return crypto.subtle.verify('HMAC', await keyOf(secret, 'verify'), signature, messageOf(Number(expiry)));
}
