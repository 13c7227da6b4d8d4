import { revalidateTag } from 'next/cache.js';
import { after } from 'next/server.js';
import type { Client } from '../client.js';
import { staticCombinations } from '../combination.js';
import { ParallaxError } from '../errors.js';
import { REVALIDATE_TURNS_MAX, WARM_CONCURRENCY, WARM_MS, WARM_PAGES } from '../limits.js';
import type { Routes } from '../types.js';
import { segmentsOf } from './layout.js';
import { isBearer } from './secret.js';
import { changesOf, currentRoutes, storedRoutes } from './stored-routes.js';
import { pathTag, queryTag, routesTag } from './tags.js';

export interface RevalidateOptions {
  /** The secret of `withParallax` and of `--on-publish-token`. Without it anyone can start a comparison. */
  secret?: string;
  /** The address of this instance. With `secret`, the handler renders the changed pages ahead. */
  siteUrl?: string;
  /** The greatest number of pages to render ahead. Default 200. */
  warm?: number;
  /** That of `withParallax`. Default `/px`. */
  prefix?: string;
}

/** Returns a route handler that marks the pages that a publication changed. Others are not rendered again. */
export function revalidateHandler(client: Client<any>, options: RevalidateOptions = {}): (request: Request) => Promise<Response> {
  const { secret, siteUrl } = options;
  // Next.js takes an entry that is stored in the request that expired its tag for expired. So the stored list is for restarts only.
  let compared: Routes | null = null;
  return async (request) => {
    if (secret && !(await isBearer(request, secret))) return new Response(null, { status: 401 });
    try {
      const before = compared ?? (await storedRoutes(client));
      const { list, paths } = await revalidate(client, before);
      compared = list;
      if (secret && siteUrl && paths.length) after(() => warmPages(client, addressOf(request, options), secret, paths, options.warm));
      return Response.json({ from: before.version, to: list.version, revalidated: paths });
    } catch (error) {
      if (!(error instanceof ParallaxError)) throw error;
      return Response.json({ code: error.code, detail: error.message }, { status: 503 });
    }
  };
}

/**
 * Marks the tags of all changes since a list, and stores the present list. Repeats the comparison with the list that was stored: a
 * version that is published between two reads is not lost. Returns the last list that was compared.
 */
async function revalidate(client: Client<any>, list: Routes): Promise<{ list: Routes; paths: string[] }> {
  const paths = new Set<string>();
  let now = await currentRoutes(client);
  for (let turn = 0; turn < REVALIDATE_TURNS_MAX && list.version !== now.version; turn++) {
    const changes = changesOf(list, now);
    // `max` serves the last good page while the new one is rendered. With an expiry time visitors would wait, or see an error.
    for (const path of changes.paths) revalidateTag(pathTag(client, path), 'max');
    for (const id of changes.queries) revalidateTag(queryTag(client, id), 'max');
    for (const path of changes.paths) paths.add(path);
    revalidateTag(routesTag(client), { expire: 0 });
    [list, now] = [now, await storedRoutes(client)];
  }
  return { list, paths: [...paths] };
}

function addressOf(request: Request, { siteUrl = '', prefix = '/px' }: RevalidateOptions): string {
  const { basePath = '' } = (request as { nextUrl?: { basePath: string } }).nextUrl ?? {};
  return siteUrl.replace(/\/+$/, '') + basePath + prefix;
}

/** Renders the combinations of changed pages, the baselines first, so that no visitor starts the render. */
async function warmPages(client: Client<any>, address: string, secret: string, paths: string[], max = WARM_PAGES): Promise<void> {
  const changed = new Set(paths);
  const all = (await staticCombinations(client).catch(() => [])).filter(({ path }) => changed.has(path));
  const ordered = [...all.filter(({ variants }) => !variants), ...all.filter(({ variants }) => variants)].slice(0, max);
  const urls = ordered.map(({ path, variants }) => [address, ...segmentsOf(path, variants).map(encodeURIComponent)].join('/'));
  const worker = async () => {
    for (let url = urls.shift(); url; url = urls.shift()) {
      const signal = AbortSignal.timeout(WARM_MS);
      const response = await fetch(url, { headers: { authorization: `Bearer ${secret}` }, cache: 'no-store', signal }).catch(() => null);
      if (!response) return; // the server ends, or is overloaded
      await response.arrayBuffer().catch(() => null);
    }
  };
  await Promise.all(Array.from({ length: WARM_CONCURRENCY }, worker));
}
