// The site as the storage has it, and the changes of this editor.
import type { Json, JsonObject } from '../core/json.js';
import type { Change, SiteFile } from '../server/storage.js';

export interface Site {
  revision: string;
  files: Record<string, SiteFile>;
}

/** A file that this editor has changed, with the file that the change began from. */
export interface Draft {
  base: SiteFile | null;
  /** The new text, or null for a removed file. */
  text: string | null;
}
export type Drafts = Record<string, Draft>;

/** A page or a redirect of the site. */
export interface PageEntry {
  file: string;
  path: string;
  title: string;
  isRedirect: boolean;
  state: 'same' | 'changed' | 'new' | 'removed' | 'broken';
}

/** Returns the present text of a file, or null if there is none. */
export function textOf(site: Site, drafts: Drafts, file: string): string | null {
  const draft = Object.hasOwn(drafts, file) ? drafts[file]! : null;
  return draft ? draft.text : Object.hasOwn(site.files, file) ? site.files[file]!.text : null;
}

/** Returns all files with their present texts. */
export function presentFiles(site: Site, drafts: Drafts): Record<string, string> {
  const names = new Set([...Object.keys(site.files), ...Object.keys(drafts)]);
  const entries = [...names].map((file) => [file, textOf(site, drafts, file)] as const);
  return Object.fromEntries(entries.filter((entry): entry is [string, string] => entry[1] !== null));
}

/** Returns the drafts with the new text of a file. A text that is that of the storage is no draft. */
export function withText(site: Site, drafts: Drafts, file: string, text: string | null): Drafts {
  const { [file]: before, ...others } = drafts;
  const base = before ? before.base : (site.files[file] ?? null);
  return text === (base?.text ?? null) ? others : { ...others, [file]: { base, text } };
}

/** Returns the changes that a save sends. */
export function changesOf(drafts: Drafts): Change[] {
  return Object.entries(drafts).map(([path, { base, text }]) => ({ path, text, etag: base?.etag ?? null }));
}

/** Returns the value of a JSON text, or undefined if it is none. */
export function parsed(text: string | null | undefined): Json | undefined {
  try {
    return text === null || text === undefined ? undefined : JSON.parse(text);
  } catch {
    return undefined;
  }
}

const isObject = (value: unknown): value is JsonObject => typeof value === 'object' && value !== null && !Array.isArray(value);

/** Returns the member of an object, or undefined. */
export function member(value: Json | undefined, name: string): Json | undefined {
  return isObject(value) && Object.hasOwn(value, name) ? value[name] : undefined;
}

function entryOf(site: Site, drafts: Drafts, file: string): PageEntry {
  const text = textOf(site, drafts, file);
  const value = parsed(text ?? site.files[file]?.text);
  const path = member(value, 'path');
  const title = member(member(member(member(value, 'layout'), 'root'), 'props'), 'title');
  const isNew = !Object.hasOwn(site.files, file);
  const state = text === null ? 'removed' : value === undefined ? 'broken' : isNew ? 'new' : Object.hasOwn(drafts, file) ? 'changed' : 'same';
  return {
    file,
    path: typeof path === 'string' ? path : file,
    title: typeof title === 'string' ? title : '',
    isRedirect: member(value, 'redirect') !== undefined,
    state,
  };
}

/** Returns the pages and redirects, sorted by their paths. */
export function pagesOf(site: Site, drafts: Drafts): PageEntry[] {
  const files = [...new Set([...Object.keys(site.files), ...Object.keys(drafts)])].filter((file) => file.startsWith('routes/'));
  return files.map((file) => entryOf(site, drafts, file)).sort((a, b) => (a.path < b.path ? -1 : 1));
}

const FILE_NAME_CHARS_MAX = 80;

/** Returns a file for a new page: its name is that of the path, and no other file has it. */
export function fileForPath(path: string, taken: (file: string) => boolean): string {
  const words = path.toLowerCase().replace(/[^a-z0-9/]+/g, '-').split('/').map((word) => word.replace(/^-+|-+$/g, ''));
  const name = words.filter(Boolean).join('/').slice(0, FILE_NAME_CHARS_MAX) || 'index';
  for (let number = 1; ; number += 1) {
    const file = `routes/${name}${number === 1 ? '' : `-${number}`}.json`;
    if (!taken(file)) return file;
  }
}

/** Returns the names of the events that the conditions of the site read. */
export function eventNamesOf({ files }: Site): string[] {
  const names = Object.values(files).flatMap(({ text }) => [...text.matchAll(/"events\.([^"\\]+)"/g)].map(([, name]) => name!));
  return [...new Set(names)].sort();
}
