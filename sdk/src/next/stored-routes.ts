import type { Client } from '../client.js';
import type { Routes } from '../types.js';
import { routesTag } from './tags.js';

/**
 * Returns the list of routes from which the cached pages were made. Next.js keeps the response in its data cache without an expiry
 * time, so the list survives a restart.
 */
export function storedRoutes(client: Client<any>): Promise<Routes> {
  return client.routes({}, { init: { next: { tags: [routesTag(client)], revalidate: false } } as RequestInit });
}

/** Returns the list of routes that Edge serves now. */
export function currentRoutes(client: Client<any>): Promise<Routes> {
  return client.routes({}, { init: { cache: 'no-store' } });
}

export interface Changes {
  /** Paths and patterns of new, changed and removed pages and redirects. */
  paths: string[];
  queries: string[];
}

/** Compares two lists of routes. */
export function changesOf(before: Routes, now: Routes): Changes {
  return {
    paths: differences(pagesOf(before), pagesOf(now)),
    queries: differences(queriesOf(before), queriesOf(now)),
  };
}

function pagesOf({ routes, redirects }: Routes): Map<string, string> {
  const pages = routes.map(({ path, hash }) => [path, hash] as const);
  return new Map([...pages, ...redirects.map(({ from, to, status }) => [from, `${status} ${to}`] as const)]);
}

function queriesOf({ queries = [] }: Routes): Map<string, string> {
  return new Map(queries.map(({ id, hash }) => [id, hash]));
}

/** Returns the keys whose values differ, or that only one of the maps has. */
function differences(before: Map<string, string>, now: Map<string, string>): string[] {
  return [...new Set([...before.keys(), ...now.keys()])].filter((key) => before.get(key) !== now.get(key));
}
