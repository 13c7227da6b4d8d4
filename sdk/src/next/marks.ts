import { revalidateTag, unstable_cache } from 'next/cache.js';
import type { Client } from '../client.js';
import { marksTag } from './tags.js';

/** A tag that a publication marked, until all its pages are known to be rendered again. */
export interface Mark {
  /** The version of the list of routes for which the tag was marked. */
  version: string;
  /** The version from which each combination was rendered since. */
  rendered: Map<string, string | null>;
}

/** The marks of a site by tag. */
export type Marks = Map<string, Mark>;

const MARKS = Symbol.for('parallax.marks');

/** Returns the marks of a site in this process. Next.js loads a module once for pages and once for handlers, so they are global. */
export function marksOf({ options }: Client<any>): Marks {
  const sites: Map<string, Marks> = ((globalThis as { [MARKS]?: Map<string, Marks> })[MARKS] ??= new Map());
  const marks = sites.get(options.trackingId) ?? new Map();
  sites.set(options.trackingId, marks);
  return marks;
}

/** Marks a tag: Next.js serves the last good page while it renders the new one. With an expiry time visitors would wait, or see an error. */
export function mark(marks: Marks, tag: string, version: string): void {
  marks.set(tag, { version, rendered: new Map() });
  revalidateTag(tag, 'max');
}

/** Marks the tag of a removed page or of a redirect for Next.js alone: nothing renders it again, and a new page differs in the list. */
export function removePage(marks: Marks, tag: string): void {
  marks.delete(tag);
  revalidateTag(tag, 'max');
}

/** Returns the tags that were marked before a restart, and not rendered again. Next.js keeps its own marks in memory only. */
export function storedMarks(client: Client<any>): Promise<string[]> {
  return cachedTags(client, []);
}

/** Stores the tags of the marks in the data cache of Next.js. */
export async function storeMarks(client: Client<any>): Promise<void> {
  revalidateTag(marksTag(client), { expire: 0 });
  await cachedTags(client, [...marksOf(client).keys()]);
}

/** Returns the stored tags. Without an entry, or with an expired one, these are stored. */
function cachedTags(client: Client<any>, tags: string[]): Promise<string[]> {
  const tag = marksTag(client);
  return unstable_cache(async () => tags, [tag], { tags: [tag], revalidate: false })();
}
