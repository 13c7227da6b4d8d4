// Requests to a proxy, and an Edge in memory.
import { type NextFetchEvent, NextRequest } from 'next/server.js';
import { createClient } from '../../src/client.js';
import type { Proxy } from '../../src/next/proxy.js';
import { type TestRoute, createTestParallax } from '../../src/testing.js';

export const HOST = 'http://shop.example';

const node = (id: string) => [{ id, type: 'Hero', props: { title: id } }];

export const ROUTES: Record<string, TestRoute> = {
  '/': { zones: { hero: node('plain') }, variants: { hero: { de: node('de') } }, choose: (v) => (v.get('anonId') ? 'hero:de' : ''), experiments: 'front:de' },
  '/tents': { zones: { hero: node('tents') }, variants: { hero: { b: node('b') } } },
  '/about': { zones: { main: node('about') } },
  '/old': { redirect: { to: '/tents' } },
  '/away': { redirect: { to: 'https://other.example/x?y=1', status: 302 } },
};

/** A Parallax in memory that counts the requests by endpoint. */
export function fakeEdge(routes = ROUTES) {
  const parallax = createTestParallax({ routes });
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
