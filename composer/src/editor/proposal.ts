// A save that waits for somebody else.
import type { LoadedSite } from './api.js';
import { type Drafts, type PageEntry, pagesOf } from './site.js';

/** A save that others have to accept before it is a part of the site. */
export interface Proposal {
  revision: string;
  url: string;
  pages: PageEntry[];
}

export const canBeShown = ({ isRedirect, state }: PageEntry) => !isRedirect && state !== 'removed' && state !== 'broken';

/** Returns the proposal of a save, with the pages that it changes. */
export function proposalOf(site: LoadedSite, drafts: Drafts, { revision, url }: { revision: string; url?: string }): Proposal | null {
  return url === undefined ? null : { revision, url, pages: pagesOf(site, drafts).filter((page) => Object.hasOwn(drafts, page.file) && canBeShown(page)) };
}
