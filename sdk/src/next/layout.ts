import type { Client } from '../client.js';
import { fromSegments, staticCombinations, toSegments } from '../combination.js';
import { ParallaxError } from '../errors.js';
import { CLASSIC_PAGE_SECONDS, RENDER_MS } from '../limits.js';
import type { Layout, Redirect, RequestOptions, SiteTypes } from '../types.js';
import { marksOf } from './marks.js';
import { storedRoutes } from './stored-routes.js';
import { encodePath, pathTag, siteTag } from './tags.js';

/** The page that `staticParams` returns in place of an empty list, which Cache Components refuse. It is never found. */
const PLACEHOLDER = 'parallax-placeholder';

export interface StaticParamsOptions {
  /** The greatest number of pages. Others are rendered on demand. */
  limit?: number;
  /** Selects the pages to render ahead. */
  filter?: (path: string, variants: string) => boolean;
  /** `empty`: a build without Edge succeeds, and all pages are rendered on demand. Default `throw`. */
  onUnreachable?: 'throw' | 'empty';
}

/** Returns the parameters of the pages to render ahead, for `generateStaticParams`. */
export async function staticParams(client: Client<any>, options: StaticParamsOptions = {}): Promise<{ segments: string[] }[]> {
  const { limit, filter = () => true, onUnreachable = 'throw' } = options;
  try {
    await storedRoutes(client); // the state before the pages: a later publication is compared with it
    const all = await staticCombinations(client, { init: { cache: 'no-store' } });
    const chosen = all.filter(({ path, variants }) => filter(path, variants)).slice(0, limit);
    const segments = chosen.map(({ path, variants }) => ({ segments: segmentsOf(path, variants) }));
    return segments.length ? segments : [{ segments: ['-', PLACEHOLDER] }];
  } catch (error) {
    if (onUnreachable === 'throw' || !(error instanceof ParallaxError)) throw error;
    console.warn(`Parallax: pages are rendered on demand, because the build cannot reach Edge: ${error.message}`);
    return [{ segments: ['-', PLACEHOLDER] }];
  }
}

/** Returns the decoded segments of an internal page. */
export function segmentsOf(path: string, variants: string): string[] {
  return [...toSegments(variants), ...path.split('/').filter(Boolean)];
}

export interface GetLayoutOptions<S extends SiteTypes> {
  /** The client of the preview site, in draft mode. */
  preview?: Client<S>;
  /** The deadline of the call while the site serves visitors. Default 250. A build and the development server wait for 2 s. */
  timeoutMs?: number;
}

/** Returns the layout of a page, or null for a path that is not published. Throws on any other failure: Next.js keeps the last good page. */
export async function getLayout<S extends SiteTypes>(
  client: Client<S>,
  segments: string[],
  { preview, timeoutMs = RENDER_MS }: GetLayoutOptions<S> = {},
): Promise<Layout<S> | Redirect | null> {
  const { path, variants } = fromSegments(segments);
  if (path === `/${PLACEHOLDER}`) return null;
  try {
    const { data, version } = await (preview ?? client).resolve(encodePath(path), { variants }, { ...requestOf(client, path, !preview), ...(isServing() ? { timeoutMs } : {}) });
    if (!preview) marksOf(client).get(pathTag(client, path))?.rendered.set(variants, version);
    return data;
  } catch (error) {
    if (error instanceof ParallaxError && error.code === 'route_not_found') return null;
    throw error;
  }
}

/** Returns whether a visitor may wait for the page, and not a build or a developer. */
function isServing(): boolean {
  return process.env.NODE_ENV === 'production' && process.env.NEXT_PHASE !== 'phase-production-build';
}

/** With Cache Components the page caches the layout, and else Next.js caches the response. Next.js replaces the variable in a build. */
function requestOf(client: Client<any>, path: string, isCached: boolean): RequestOptions {
  if (!isCached) return { init: { cache: 'no-store' } };
  if (process.env.__NEXT_CACHE_COMPONENTS) return {};
  const next = { tags: [siteTag(client), pathTag(client, path)], revalidate: CLASSIC_PAGE_SECONDS };
  return { init: { next } as RequestInit };
}

/** Returns the cache tags of a page: those of the site, of its path and of its pattern. */
export function tagsOf(client: Client<any>, segments: string[], layout?: Layout<any> | Redirect | null): string[] {
  const { path } = fromSegments(segments);
  const paths = new Set([path, layout?.pattern ?? path]);
  return [siteTag(client), ...[...paths].map((each) => pathTag(client, each))];
}
