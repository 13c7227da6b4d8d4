import { revalidateTag } from 'next/cache.js';
import type { Client } from '../client.js';
import { type StaticCombination, staticCombinations } from '../combination.js';
import { WARM_CONCURRENCY, WARM_MS, WARM_PAGES, WARM_POLL_MS } from '../limits.js';
import { segmentsOf } from './layout.js';
import { marksOf, storeMarks } from './marks.js';
import { pathTag } from './tags.js';

/** The access of the revalidation handler to the internal pages of its instance. */
export interface Warmer {
  /** The address of the internal pages. */
  address: string;
  secret: string;
  pagesMax?: number;
}

/**
 * Renders the combinations of changed pages, the baselines first, so that no visitor starts the render. Removes the marks of all pages
 * that were rendered, and stores the others for a restart. `version` returns the version that was compared last.
 */
export async function renderMarked(client: Client<any>, warmer: Warmer | null, changed: Set<string>, version: () => string): Promise<void> {
  const marks = marksOf(client);
  const begun = new Map(marks);
  const markOf = ({ path }: StaticCombination) => begun.get(pathTag(client, path));
  const isRendered = (page: StaticCombination) => {
    const rendered = markOf(page)!.rendered.get(page.variants);
    return rendered !== undefined && [markOf(page)!.version, version()].includes(rendered!);
  };
  try {
    const pages = (await staticCombinations(client, { init: { cache: 'no-store' } })).filter(markOf);
    if (warmer) await warmPages(warmer, pages.filter((page) => changed.has(page.path) && !isRendered(page)), isRendered);
    const tagsOf = (some: StaticCombination[]) => new Set(some.map(({ path }) => pathTag(client, path)));
    const missing = tagsOf(pages.filter((page) => !isRendered(page)));
    // A later publication may have marked the tag again.
    for (const tag of tagsOf(pages)) if (!missing.has(tag) && marks.get(tag) === begun.get(tag)) marks.delete(tag);
    // Next.js takes a page for fresh that it rendered from a server of Edge with the version before.
    const outdated = pages.filter((page) => !isRendered(page) && markOf(page)!.rendered.has(page.variants));
    for (const tag of tagsOf(outdated)) revalidateTag(tag, 'max');
    await storeMarks(client);
  } catch (error) {
    console.error(`Parallax: changed pages are not rendered ahead; the next visitor of each starts the render: ${(error as Error).message}`);
  }
}

/** Requests the pages, the baselines first, each until it has been rendered. */
async function warmPages(warmer: Warmer, pages: StaticCombination[], isRendered: (page: StaticCombination) => boolean): Promise<void> {
  const ordered = [...pages.filter(({ variants }) => !variants), ...pages.filter(({ variants }) => variants)];
  const queue = ordered.slice(0, warmer.pagesMax ?? WARM_PAGES);
  const worker = async () => {
    for (let page = queue.shift(); page; page = queue.shift()) {
      if (!(await warmPage(warmer, page, isRendered))) return; // the server ends, or is overloaded, or Edge does not answer
    }
  };
  await Promise.all(Array.from({ length: WARM_CONCURRENCY }, worker));
}

/** Requests a page until Next.js has rendered it: for a marked page it responds at once, and renders in the background. */
async function warmPage({ address, secret }: Warmer, page: StaticCombination, isRendered: (page: StaticCombination) => boolean): Promise<boolean> {
  const url = [address, ...segmentsOf(page.path, page.variants).map(encodeURIComponent)].join('/');
  const signal = AbortSignal.timeout(WARM_MS);
  try {
    for (;;) {
      const response = await fetch(url, { headers: { authorization: `Bearer ${secret}` }, cache: 'no-store', signal });
      await response.arrayBuffer();
      if (response.headers.get('x-nextjs-cache') !== 'STALE' && isRendered(page)) return true;
      await new Promise((resolve) => setTimeout(resolve, WARM_POLL_MS));
      signal.throwIfAborted();
    }
  } catch {
    return false;
  }
}
