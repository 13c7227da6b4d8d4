// Links with which a colleague sees a page without a session.
import { createHmac, timingSafeEqual } from 'node:crypto';
import { isSitePath } from './check.js';
import { isRevisionMissing } from './errors.js';
import { Members } from './json-body.js';
import { PREVIEWS_KEPT_MAX, PREVIEW_DAYS_DEFAULT, PREVIEW_DAYS_MAX, PREVIEW_KEPT_CHARS_MAX, PREVIEW_KEPT_MS, PREVIEW_SECRET_CHARS_MIN, PREVIEW_TOKEN_CHARS_MAX, REVISION_CHARS_MAX } from './limits.js';
import { Problem } from './problem.js';
import type { SiteFile, Storage } from './storage.js';

/** The purpose of the tokens. One of another purpose, such as of `previewLink` of the SDK, has another signature, also with the same secret. */
const PURPOSE = 'px-composer-preview';
const FORM = /^([0-9]{1,12})\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]{43})$/;
const DAY_S = 86_400;

/** A page at a revision, for whoever has the link. */
export interface Preview {
  /** The revision of the files. */
  revision: string;
  /** The file of the page. */
  page: string;
  /** The name of the person who made the link. */
  by: string;
}

/** The request for a link. */
export interface PreviewRequest {
  revision: string;
  page: string;
  days: number;
}

/** Throws if the secret can be guessed. */
export function checkPreviewSecret(secret: string): void {
  if (typeof secret === 'string' && secret.length >= PREVIEW_SECRET_CHARS_MIN) return;
  throw new TypeError(`'previewSecret' must have at least ${PREVIEW_SECRET_CHARS_MIN} characters.`);
}

export function readPreviewRequest(body: unknown): PreviewRequest {
  const members = new Members(body, ['revision', 'page', 'days']);
  const [revision, page, days] = [members.text('revision'), members.text('page'), members.optionalNumber('days') ?? PREVIEW_DAYS_DEFAULT];
  if (!Number.isInteger(days) || days < 1 || days > PREVIEW_DAYS_MAX) {
    throw new Problem(400, 'invalid_body', `The member "days" is ${days}; a link is valid for 1 to ${PREVIEW_DAYS_MAX} whole days.`);
  }
  if (revision.length > REVISION_CHARS_MAX || !isPage(page)) throw new Problem(400, 'invalid_body', 'The body has no revision, or no file of a page.');
  return { revision, page, days };
}

const isPage = (page: string): boolean => page.startsWith('routes/') && isSitePath(page);

/**
 * Returns the token of a link. Its form is that of the SDK, `<expiry>.<claims>.<signature>`: the expiry is in seconds since 1970, and the
 * signature is HMAC-SHA-256 of "px-composer-preview <expiry>.<claims>". It and the claims, a JSON array, are in base64url.
 */
export function signPreview(secret: string, { revision, page, by }: Preview, expiry: number): string {
  const claims = `${expiry}.${Buffer.from(JSON.stringify([revision, page, by])).toString('base64url')}`;
  return `${claims}.${signatureOf(secret, claims)}`;
}

function signatureOf(secret: string, claims: string): string {
  return createHmac('sha256', secret).update(`${PURPOSE} ${claims}`).digest('base64url');
}

export function expiryOf(nowMs: number, days: number): number {
  return Math.floor(nowMs / 1000) + days * DAY_S;
}

/** Returns the content of a token that was signed with the secret and has not expired. */
export function verifyPreview(secret: string, token: string | null, nowMs: number): Preview & { expiry: number } {
  const [, expiry, claims, signature] = (token !== null && token.length <= PREVIEW_TOKEN_CHARS_MAX && FORM.exec(token)) || [];
  const expected = expiry && claims ? Buffer.from(signatureOf(secret, `${expiry}.${claims}`)) : null;
  // Both have 43 characters. The texts are compared, because base64url can write the same bytes in several ways.
  if (!expected || !timingSafeEqual(expected, Buffer.from(signature!)) || Number(expiry) * 1000 <= nowMs) {
    throw new Problem(401, 'preview_not_valid', 'The link of this preview is not valid or has expired; ask for a new one.');
  }
  const [revision, page, by] = JSON.parse(Buffer.from(claims!, 'base64url').toString()) as [string, string, string];
  return { revision, page, by, expiry: Number(expiry) };
}

/** Returns a name of the revision for a link: the commit of the present files if there is one, because it stays. */
export async function lastingRevision(storage: Storage, revision: string): Promise<{ revision: string; files: Record<string, SiteFile> }> {
  const found = await filesAt(storage, revision);
  if (found.isLasting || !storage.history || !storage.at) return { revision, files: found.files };
  const [last] = await storage.history(1);
  const committed = last && (await storage.at(last.revision));
  return committed && isEqual(committed, found.files) ? { revision: last.revision, files: committed } : { revision, files: found.files };
}

/** Returns the files of a revision of the history, or of the present one. */
async function filesAt(storage: Storage, revision: string): Promise<{ files: Record<string, SiteFile>; isLasting: boolean }> {
  try {
    if (storage.at) return { files: await storage.at(revision), isLasting: true };
  } catch (error) {
    if (!isRevisionMissing(error)) throw error;
  }
  const present = await storage.list();
  if (present.revision === revision) return { files: present.files, isLasting: false };
  throw gone();
}

function isEqual(a: Record<string, SiteFile>, b: Record<string, SiteFile>): boolean {
  const names = Object.keys(a);
  return names.length === Object.keys(b).length && names.every((name) => Object.hasOwn(b, name) && a[name]!.etag === b[name]!.etag);
}

function gone(): Problem {
  return new Problem(410, 'preview_gone', 'The page has changed since this link was made. Ask for a new one.');
}

/** Returns the file of the page. */
export function pageOf(files: Record<string, SiteFile>, page: string): SiteFile {
  if (!Object.hasOwn(files, page)) throw gone();
  return files[page]!;
}

/** The part of the site that a link shows: the file of its page, and the names of the audiences. */
interface Content {
  text: string;
  audiences: Record<string, string>;
}

/** Returns the content of a link, and nothing else of the site. */
export type ReadPreview = (preview: Preview) => Promise<Content>;

/** Returns a reader that keeps the pages of commits for a short time. */
export function previewReader(storage: Storage, now: () => number): ReadPreview {
  const kept = new Map<string, { content: Content; until: number }>();

  return async ({ revision, page }) => {
    const key = `${revision} ${page}`;
    const known = kept.get(key);
    if (known && now() < known.until) return known.content;
    const { files, isLasting } = await filesAt(storage, revision);
    const content = { text: pageOf(files, page).text, audiences: audienceNames(files['audiences.json']?.text) };
    kept.delete(key);
    if (isLasting && content.text.length <= PREVIEW_KEPT_CHARS_MAX) kept.set(key, { content, until: now() + PREVIEW_KEPT_MS });
    if (kept.size > PREVIEWS_KEPT_MAX) kept.delete(kept.keys().next().value!);
    return content;
  };
}

function audienceNames(text: string | undefined): Record<string, string> {
  try {
    const audiences = Object.entries(Object(JSON.parse(text ?? '{}')) as Record<string, unknown>);
    const nameOf = (key: string, value: unknown) => (typeof (value as { name?: unknown } | null)?.name === 'string' ? (value as { name: string }).name : key);
    return Object.fromEntries(audiences.filter(([key]) => !key.startsWith('$')).map(([key, value]) => [key, nameOf(key, value)]));
  } catch {
    return {};
  }
}
