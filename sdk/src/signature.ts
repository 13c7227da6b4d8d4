import { cutSlashes } from './addresses.js';
import { PREVIEW_LINK_DAYS, REVIEWER_CHARS_MAX } from './limits.js';

/** The cookie of a preview. Its value is a token. */
export const PREVIEW_COOKIE = 'px_preview';

const encoder = new TextEncoder();
const FORM = /^([0-9]{1,12})\.([A-Za-z0-9_-]*)\.([A-Za-z0-9_-]{43})$/;

function keyOf(secret: string, usage: 'sign' | 'verify'): Promise<CryptoKey> {
  return crypto.subtle.importKey('raw', encoder.encode(secret), { name: 'HMAC', hash: 'SHA-256' }, false, [usage]);
}

function messageOf(claims: string): Uint8Array<ArrayBuffer> {
  return encoder.encode(`px-preview ${claims}`);
}

function toBase64Url(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes)).replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '');
}

function fromBase64Url(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(text.replaceAll('-', '+').replaceAll('_', '/')), (character) => character.charCodeAt(0));
}

/**
 * Returns a token that lets a reviewer see drafts until `expiry`, in seconds since 1970. Its form is `<expiry>.<reviewer>.<signature>`:
 * the signature is HMAC-SHA-256 of "px-preview <expiry>.<reviewer>", and it and the name of the reviewer are in base64url.
 */
export async function signPreview(secret: string, expiry: number, reviewer = ''): Promise<string> {
  if (!secret) throw new Error('signPreview: `secret` is empty; set the variable that holds it.');
  if (reviewer.length > REVIEWER_CHARS_MAX) throw new Error(`signPreview: the name of a reviewer has at most ${REVIEWER_CHARS_MAX} characters; got ${reviewer.length}.`);
  const claims = `${expiry}.${toBase64Url(encoder.encode(reviewer))}`;
  const signature = await crypto.subtle.sign('HMAC', await keyOf(secret, 'sign'), messageOf(claims));
  return `${claims}.${toBase64Url(new Uint8Array(signature))}`;
}

/**
 * Returns the hash of a user ID for a site that verifies user IDs: HMAC-SHA-256 in hex. `key` is a key of the site in the file of
 * `--identity-keys`. Only for servers: anyone with the key can sign for every user.
 */
export async function userHash(key: string, userId: string): Promise<string> {
  if (!key) throw new Error('userHash: `key` is empty; set the variable that holds it.');
  const hash = await crypto.subtle.sign('HMAC', await keyOf(key, 'sign'), encoder.encode(userId));
  return Array.from(new Uint8Array(hash), (byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** The content of a valid token. */
export interface PreviewToken {
  expiry: number;
  reviewer: string;
}

/** Returns the content of a token that was signed with the secret and has not expired, else null. */
export async function verifyPreview(secret: string | undefined, token: string | null | undefined): Promise<PreviewToken | null> {
  const [, expiry, reviewer, signature] = FORM.exec(token ?? '') ?? [];
  if (!secret || !expiry || !signature || Number(expiry) * 1000 <= Date.now()) return null;
  const isValid = await crypto.subtle.verify('HMAC', await keyOf(secret, 'verify'), fromBase64Url(signature), messageOf(`${expiry}.${reviewer}`));
  return isValid ? { expiry: Number(expiry), reviewer: new TextDecoder().decode(fromBase64Url(reviewer!)) } : null;
}

export interface PreviewLinkOptions {
  /** The secret of `previewHandler`. */
  secret: string;
  /** The public address of the site, with its base path. */
  siteUrl: string;
  /** A name for the person who gets the link, such as `ana`. At most 64 characters. */
  reviewer: string;
  /** Default 7. */
  days?: number;
  /** The first page. Default `/`. */
  to?: string;
  /** The path of `previewHandler`. Default `/api/parallax/preview`. */
  handler?: string;
}

/** Returns a link that begins a preview for one reviewer and expires. */
export async function previewLink({ secret, siteUrl, reviewer, days = PREVIEW_LINK_DAYS, to = '/', handler = '/api/parallax/preview' }: PreviewLinkOptions): Promise<string> {
  const expiry = Math.floor(Date.now() / 1000 + days * 86_400);
  const query = new URLSearchParams({ token: await signPreview(secret, expiry, reviewer), to });
  return `${cutSlashes(siteUrl)}${handler}?${query}`;
}
