import type { Breaker } from '../breaker.js';
import type { Client } from '../client.js';
import { decodeOnce } from '../combination.js';
import { isFailure } from '../decide.js';
import type { Redirect, Routes } from '../types.js';
import { encodePath } from './tags.js';

/** A page of the table. */
interface TablePage {
  kind: 'page';
  /** The number of personalized zones. */
  zones: number;
}

interface TableRedirect {
  kind: 'redirect';
  pattern: string;
  to: string;
  status: number;
}

type Entry = TablePage | TableRedirect;

/** A branch of the tree of patterns, with one branch for each literal of the next segment. */
interface Branch {
  literals: Map<string, Branch>;
  parameter?: Branch;
  /** The entry of a closing `*`. */
  rest?: Entry;
  entry?: Entry;
}

/** The published routes in the memory of a proxy. */
export interface RouteTable {
  /** The version of the site, or null before the first load. */
  readonly version: string | null;
  /** True if a refresh is due and none is running. */
  readonly isStale: boolean;
  /** True while the site is unknown: until then `Sec-GPC` counts as a refusal. */
  readonly honorGpc: boolean;
  /** Both take the decoded segments of a path. */
  page(segments: string[]): { zones: number } | undefined;
  redirect(segments: string[]): Pick<Redirect, 'to' | 'status'> | undefined;
  /** Loads the changes. Never throws: a failure leaves the table as it is. */
  refresh(): Promise<void>;
}

export interface RouteTableOptions {
  /** The name of the ID cookie that the site uses. */
  cookie: string;
  seconds: number;
  breaker: Breaker;
}

export function createRouteTable(client: Client<any>, { cookie, seconds, breaker }: RouteTableOptions): RouteTable {
  const entries = new Map<string, Entry>();
  let tree = createBranch();
  let version: string | null = null;
  let honorGpc = true;
  let refreshedAt = -Infinity;
  let running: Promise<void> | null = null;

  async function load(): Promise<void> {
    const report = breaker.enter();
    if (!report) return;
    try {
      const once = { retries: 0, init: { cache: 'no-store' as const } };
      const routes = await client.routes(version === null ? {} : { since: version }, once);
      if (routes.version !== version) {
        const { data } = await client.site(once);
        honorGpc = data.privacy.honorGpc;
        warnOfCookie(data.cookie, cookie);
        applyChanges(entries, routes);
        tree = treeOf(entries);
        version = routes.version;
      }
      report(true);
    } catch (error) {
      report(!isFailure(error));
    }
  }

  function refresh(): Promise<void> {
    refreshedAt = Date.now();
    return (running ??= load().finally(() => (running = null)));
  }

  return {
    get version() {
      return version;
    },
    get isStale() {
      return !running && (version === null || Date.now() - refreshedAt >= seconds * 1000);
    },
    get honorGpc() {
      return honorGpc;
    },
    page(segments) {
      const entry = find(tree, segments);
      return entry?.kind === 'page' ? entry : undefined;
    },
    redirect(segments) {
      const entry = find(tree, segments);
      if (entry?.kind !== 'redirect') return undefined;
      return { to: targetOf(entry, segments), status: entry.status as Redirect['status'] };
    },
    refresh,
  };
}

function warnOfCookie(actual: string, expected: string): void {
  if (actual === expected) return;
  console.warn(`Parallax: the site's ID cookie is "${actual}", and this site uses "${expected}"; pass { cookie: '${actual}' }.`);
}

function createBranch(): Branch {
  return { literals: new Map() };
}

/** A delta has the member `since` with a version. Any other list replaces everything. */
function applyChanges(entries: Map<string, Entry>, { since, routes, redirects, removed }: Routes): void {
  if (!since) entries.clear();
  for (const path of removed) entries.delete(path);
  for (const { path, zones } of routes) entries.set(path, { kind: 'page', zones: zones.length });
  for (const { from, to, status } of redirects) entries.set(from, { kind: 'redirect', pattern: from, to, status });
}

function treeOf(entries: Map<string, Entry>): Branch {
  const root = createBranch();
  for (const [path, entry] of entries) {
    let at = root;
    const segments = path.slice(1).split('/');
    if (segments.at(-1) === '*') segments.pop();
    for (const segment of segments) at = next(at, segment);
    if (path.endsWith('/*')) at.rest = entry;
    else at.entry = entry;
  }
  return root;
}

function next(at: Branch, segment: string): Branch {
  if (segment.startsWith(':')) return (at.parameter ??= createBranch());
  const known = at.literals.get(segment) ?? createBranch();
  at.literals.set(segment, known);
  return known;
}

/** Matches as Edge does: a literal wins over `:name`, and that over a closing `*`, segment by segment. */
function find(at: Branch | undefined, segments: string[], depth = 0): Entry | undefined {
  if (!at) return undefined;
  if (depth === segments.length) return at.entry;
  return find(at.literals.get(segments[depth]!), segments, depth + 1) ?? find(at.parameter, segments, depth + 1) ?? at.rest;
}

/** Replaces `:name` and `*` in the target by the segments of the path, percent-encoded. */
function targetOf({ pattern, to }: TableRedirect, segments: string[]): string {
  const names = pattern.slice(1).split('/');
  const values = new Map(names.map((name, i) => [name, name === '*' ? segments.slice(i).join('/') : segments[i]!]));
  const target = to.replaceAll(/(?<=\/)(:[A-Za-z0-9_-]+|\*)(?=[/?#]|$)/g, (name) => (values.has(name) ? encodePath(values.get(name)!) : name));
  // A path that begins with two slashes would lead to another host.
  return to.startsWith('/') ? target.replace(/^[/\\]+/, '/') : target;
}

/**
 * Returns the segments of a path as Edge decodes them: each by itself, so that `%2F` becomes part of its segment. A closing `/` is no
 * segment, and an invalid escape stays as written.
 */
export function decodeSegments(pathname: string): string[] {
  const path = pathname.length > 1 && pathname.endsWith('/') ? pathname.slice(0, -1) : pathname;
  return path.slice(1).split('/').map(decodeOnce);
}
