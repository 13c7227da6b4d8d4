import type { Client } from '../client.js';
import { fnv1a } from '../hash.js';
import { TAG_CHARS_MAX } from '../limits.js';

/** Percent-encodes the segments of a decoded path. A tag is part of a header, in which a comma separates tags. */
export function encodePath(path: string): string {
  return path.split('/').map(encodeURIComponent).join('/');
}

function tagOf({ options }: Client<any>, rest: string): string {
  const tag = `px:${options.trackingId}${rest && ':'}${rest}`;
  return tag.length <= TAG_CHARS_MAX ? tag : `px:${options.trackingId}:#${fnv1a(rest)}`;
}

/** Returns the tag of all cached data of a site. */
export function siteTag(client: Client<any>): string {
  return tagOf(client, '');
}

/** Returns the tag of the stored list of routes. */
export function routesTag(client: Client<any>): string {
  return tagOf(client, 'routes');
}

/** Returns the tag of the stored marks. A path begins with a slash, so no page has this tag. */
export function marksTag(client: Client<any>): string {
  return tagOf(client, 'marks');
}

/** Returns the tag of a decoded path or of a pattern. */
export function pathTag(client: Client<any>, path: string): string {
  return tagOf(client, encodePath(path));
}

/** Returns the tag of a query, for a cached function of a site that calls `client.query`. */
export function queryTag(client: Client<any>, id: string): string {
  return tagOf(client, `?${id}`);
}
