// The paths of pages: which ones can be used, and the change of one.
import { patch } from '../core/patch.js';
import type { Json, JsonObject } from '../core/json.js';
import { textsIn } from './fields.js';
import { type Drafts, type PageEntry, type Site, fileForPath, pagesOf, parsed, presentFiles, withText } from './site.js';

/** Bytes of a path. The program refuses more (`ROUTE_BYTES_MAX`). */
const PATH_BYTES_MAX = 2 * 1024;

/** Returns why the program refuses a path, or null. */
export function pathFault(path: string): string | null {
  if (!path.startsWith('/')) return 'A path begins with “/”.';
  if (new TextEncoder().encode(path).length > PATH_BYTES_MAX) return `A path has at most ${PATH_BYTES_MAX} bytes.`;
  if (/[%?#]/.test(path)) return 'A path has no “%”, “?” and “#”.';
  if (path.includes('//') || (path.length > 1 && path.endsWith('/'))) return 'A path has no empty parts: write “/blog” instead of “/blog/”.';
  const parts = path.slice(1).split('/');
  const names = parts.filter((part) => part.startsWith(':')).map((part) => part.slice(1));
  const wrong = names.find((name) => !/^[A-Za-z0-9_-]+$/.test(name));
  if (wrong !== undefined) return 'A name after “:” has letters from a to z, digits, “_” and “-”.';
  if (new Set(names).size < names.length) return 'A path has each name after “:” once.';
  if (parts.slice(0, -1).includes('*')) return '“*” can only be the last part of a path.';
  return null;
}

/** Returns the path without the names of its parameters. Two paths with the same shape are those of the same pages. */
const shapeOf = (path: string) => path.normalize('NFC').split('/').map((part) => (part.startsWith(':') ? ':' : part)).join('/');

/** Returns why a path cannot be that of another page, or null. */
export function pathRefusal(path: string, pages: PageEntry[]): string | null {
  const fault = pathFault(path);
  if (fault) return fault;
  const other = pages.find((page) => page.state !== 'removed' && shapeOf(page.path) === shapeOf(path));
  if (!other) return null;
  return other.isRedirect ? `A redirect has the path “${other.path}”.` : 'There is a page with this path.';
}

/** Returns the number of the pages, without this one, with a text that is its path, or a link to it. */
export function mentionsOf(files: Record<string, string>, file: string, path: string): number {
  const pattern = path.split('/').map((part) => (part.startsWith(':') ? '[^/?#]+' : part === '*' ? '[^?#]+' : part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'))).join('/');
  const link = new RegExp(`^${pattern}(?:[?#].*)?$`, 's');
  const isMention = (text: string) => text === path || link.test(text);
  const mentions = (text: string) => [...textsIn(parsed(text) ?? null)].some(isMention);
  return Object.keys(files).filter((other) => other.startsWith('routes/') && other !== file && mentions(files[other]!)).length;
}

const paramsOf = (path: string) => path.split('/').filter((part) => part.startsWith(':') || part === '*');
/** Returns the path as the target of a redirect, in which a colon and an asterisk within a part are parameters. */
const targetOf = (path: string) => path.split('/').map((part) => (part === '*' ? part : part[0] === ':' ? part : part.replaceAll(':', '%3A').replaceAll('*', '%2A'))).join('/');

/** Returns the drafts in which a page has another path and the file of that path, or the reason why it cannot have it. */
export function renamedPage(site: Site, drafts: Drafts, file: string, path: string, redirects: boolean): Drafts | string {
  const files = presentFiles(site, drafts);
  const route = parsed(files[file]) as JsonObject;
  const before = String(route.path);
  const pages = pagesOf(site, drafts);
  if (path === before) return 'This is the path that the page has.';
  // Without a redirect the path of the page itself is free.
  const refusal = pathRefusal(path, redirects ? pages : pages.filter((page) => page.file !== file));
  if (refusal) return refusal;
  const unknown = paramsOf(path).find((param) => !paramsOf(before).includes(param));
  if (redirects && unknown) return `A redirect from “${before}” does not know “${unknown}”. Rename the page without a redirect.`;
  const target = fileForPath(path, (name) => Object.hasOwn(files, name) || Object.hasOwn(site.files, name));
  const redirect: Json = { path: before, redirect: { to: targetOf(path), status: 308 } };
  const renamed = withText(site, drafts, target, patch(files[file]!, { ...route, path }));
  return withText(site, renamed, file, redirects ? `${JSON.stringify(redirect, null, 2)}\n` : null);
}
