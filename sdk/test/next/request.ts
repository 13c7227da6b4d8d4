// Requests to a proxy, and an Edge in memory.
import { type NextFetchEvent, NextRequest } from 'next/server.js';
import { createClient } from '../../src/client.js';
import type { Proxy } from '../../src/next/proxy.js';
import { type TestSite, createTestParallax } from '../../src/testing.js';
import type { LayoutNode } from '../../src/types.js';

export const HOST = 'http://shop.example';

const node = (id: string) => [{ id, type: 'Hero', props: { title: id } }];

/** A route of a test. `variants` names the nodes of a zone for each key. */
interface TestRoute {
  zones?: Record<string, LayoutNode[]>;
  variants?: Record<string, Record<string, LayoutNode[]>>;
  /** The arm of the experiment `front` that each visitor with an ID gets. */
  arm?: string;
  redirect?: { to: string; status?: 301 | 302 | 303 | 307 | 308 };
}

export const ROUTES: Record<string, TestRoute> = {
  '/': { zones: { hero: node('plain') }, variants: { hero: { de: node('de') } }, arm: 'de' },
  '/tents': { zones: { hero: node('tents') }, variants: { hero: { b: node('b') } } },
  '/about': { zones: { main: node('about') } },
  '/old': { redirect: { to: '/tents' } },
  '/away': { redirect: { to: 'https://other.example/x?y=1', status: 302 } },
};

/** Returns the files of a site with these routes. */
export function siteOf(routes: Record<string, TestRoute>): TestSite {
  const files = Object.entries(routes).map(([path, route], at) => [`routes/${at}.json`, fileOf(path, route)]);
  return { 'site.json': { site: 'test', trackingId: 'track_test', name: 'Test' }, ...Object.fromEntries(files) };
}

function fileOf(path: string, { zones = {}, variants = {}, arm, redirect }: TestRoute): object {
  if (redirect) return { path, redirect: { status: 308, ...redirect } };
  const experiment = arm && { experiment: { key: 'front', variants: ['default', arm], weights: [0, 1] } };
  // Edge lists the combinations that the rules can give.
  const rulesOf = (keys: string[]) => (experiment ? [experiment] : keys.map((variant) => ({ when: { 'url.query.show': variant }, variant })));
  const decided = Object.entries(variants).map(([zone, keys]) => [zone, { default: zones[zone] ?? [], variants: keys, rules: rulesOf(Object.keys(keys)) }]);
  return { path, layout: { root: { props: {} }, zones: { ...zones, ...Object.fromEntries(decided) } } };
}

/** A Parallax in memory that counts the requests by endpoint. */
export function fakeEdge(routes = ROUTES) {
  const parallax = createTestParallax({ site: siteOf(routes) });
  const requests: string[] = [];
  let intercept: ((url: URL, init?: RequestInit) => Promise<Response> | Response | undefined) | undefined;
  const counting: typeof fetch = async (input, init) => {
    const url = new URL(String(input));
    requests.push(url.pathname);
    return (await intercept?.(url, init)) ?? parallax.fetch(input, init);
  };
  return {
    parallax,
    requests,
    client: createClient({ edgeUrl: 'http://edge', trackingId: 'track_test', fetch: counting }),
    decisions: () => requests.filter((path) => path === '/v1/variants').length,
    /** Answers requests in place of the fake. `undefined` leaves one to it. */
    answer(next: typeof intercept) {
      intercept = next;
    },
  };
}

export interface Visit {
  status: number;
  headers: Headers;
  /** The path of the rewritten request, or null. */
  rewritten: string | null;
  /** True for a request that the proxy left alone. */
  isNext: boolean;
  cookies: string[];
  /** Ends when the work after the response has ended. */
  after: Promise<unknown>;
}

/** Sends a request through a proxy. */
export async function visit(proxy: Proxy, path: string, headers: Record<string, string> = {}, options: object = {}, host = HOST): Promise<Visit> {
  const pending: Promise<unknown>[] = [];
  const event = { waitUntil: (promise: Promise<unknown>) => pending.push(promise) } as unknown as NextFetchEvent;
  const request = new NextRequest(host + path, { headers: { host: new URL(host).host, ...headers }, ...options });
  const response = await proxy(request, event);
  const rewrite = response.headers.get('x-middleware-rewrite');
  return {
    status: response.status,
    headers: response.headers,
    rewritten: rewrite && new URL(rewrite).pathname + new URL(rewrite).search,
    isNext: response.headers.get('x-middleware-next') === '1',
    cookies: response.headers.getSetCookie(),
    after: Promise.all(pending),
  };
}

/** Loads the route table of a proxy. */
export async function warm(proxy: Proxy): Promise<void> {
  await (await visit(proxy, '/about')).after;
}
