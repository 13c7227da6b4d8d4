import { readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { ServerModule } from './testing-module.js';
import type { Json } from './types.js';

/** A site: its directory, or its files by path, each as text or as JSON. */
export type TestSite = string | Record<string, unknown>;

export interface TestParallax {
  /** For `ClientOptions.fetch`: answers as Edge and Events do. */
  fetch: typeof fetch;
  /** The recorded events in the order of their receipt, as they were sent. */
  events: readonly Record<string, Json>[];
  /** Publishes the site again, or another content of it, and returns the new version. The visitors stay. */
  publish(site?: TestSite): string;
  /** Lets the next calls fail: without a response, without an end, or with a status. */
  fail(failure: 'network' | 'timeout' | number, times?: number): void;
}

export interface TestOptions {
  site: TestSite;
  /** Default: that of `site.json`. */
  trackingId?: string;
}

type Failure = 'network' | 'timeout' | number;

/** The content of a file that is a list of results of events. */
interface Receipt {
  results?: { index: number }[];
}

/**
 * Makes a Parallax in memory for the tests of a site. It is the server as a module of WebAssembly: it compiles the site, evaluates its
 * rules, and folds events. Throws the report of `parallax compile` if the site has errors.
 */
export function createTestParallax({ site, trackingId }: TestOptions): TestParallax {
  const server = new ServerModule();
  const events: Record<string, Json>[] = [];
  const failures: Failure[] = [];
  const snapshotOf = (version: number) => server.compile(filesOf(site, trackingId), version);
  let version = 1;
  server.serve(snapshotOf(version));
  return {
    events,
    fetch: (async (input, init) => {
      const request = new Request(input, init);
      const failure = failures.shift();
      if (failure === 'network') throw new TypeError('fetch failed');
      if (failure === 'timeout') return await never(request.signal);
      if (failure) return problem(failure);
      const body = new Uint8Array(await request.arrayBuffer());
      request.signal.throwIfAborted();
      const response = responseOf(request, server.answer(bytesOf(request, body)));
      if (request.method === 'POST') events.push(...(await recordedIn(body, response, events)));
      return response;
    }) as typeof fetch,
    publish(next = site) {
      site = next;
      server.publish(snapshotOf(version + 1));
      return String(++version);
    },
    fail(failure, times = 1) {
      failures.push(...Array.from({ length: times }, () => failure));
    },
  };
}

/** Returns the files of a site by path. The module ignores those that are no part of it. */
function filesOf(site: TestSite, trackingId: string | undefined): [path: string, text: string][] {
  const names = typeof site === 'string' ? readdirSync(site, { recursive: true, encoding: 'utf8' }) : Object.keys(site);
  return names.filter((name) => name.endsWith('.json')).map((name) => {
    const content = typeof site === 'string' ? readFileSync(path.join(site, name), 'utf8') : site[name];
    const text = typeof content === 'string' ? content : JSON.stringify(content, null, 2);
    const file = name.split(path.sep).join('/');
    return [file, file === 'site.json' && trackingId ? withTrackingId(text, trackingId) : text];
  });
}

/** Returns the text of `site.json` with another tracking ID. A text with an error stays as it is, so that the report shows it. */
function withTrackingId(text: string, trackingId: string): string {
  try {
    return JSON.stringify({ ...JSON.parse(text), trackingId }, null, 2);
  } catch {
    return text;
  }
}

/** Fields that describe the connection, which a request in memory has not. */
const CONNECTION_FIELDS = new Set(['connection', 'content-length', 'host', 'transfer-encoding']);

/** Returns the bytes of a request. */
function bytesOf(request: Request, body: Uint8Array): Uint8Array {
  const { host, pathname, search } = new URL(request.url);
  const fields = [...request.headers].filter(([name]) => !CONNECTION_FIELDS.has(name)).map(([name, value]) => `${name}: ${value}\r\n`);
  const length = request.method === 'POST' || body.length > 0 ? `Content-Length: ${body.length}\r\n` : '';
  const head = `${request.method} ${pathname}${search} HTTP/1.1\r\nHost: ${host}\r\n${length}${fields.join('')}\r\n`;
  return Buffer.concat([Buffer.from(head, 'latin1'), body]);
}

/** Reads the bytes of a response. */
function responseOf({ method }: Request, bytes: Uint8Array): Response {
  const buffer = Buffer.from(bytes);
  const end = buffer.indexOf('\r\n\r\n');
  const [first, ...lines] = buffer.toString('latin1', 0, end).split('\r\n');
  const [, status, statusText] = /^HTTP\/1\.1 (\d+) (.*)$/.exec(first!)!;
  const headers = new Headers(lines.map((line) => line.split(/: (.*)/s, 2) as [string, string]));
  const hasBody = method !== 'HEAD' && !['204', '304'].includes(status!);
  return new Response(hasBody ? buffer.subarray(end + 4) : null, { status: Number(status), statusText, headers });
}

/** Returns the events of a request that were recorded. A receipt lists the others. A 204 has no duplicate that is listed. */
async function recordedIn(body: Uint8Array, response: Response, earlier: readonly Record<string, Json>[]): Promise<Record<string, Json>[]> {
  if (response.status !== 204 && response.status !== 200) return [];
  const parsed = parseJson(Buffer.from(body).toString('utf8')) as { batch?: Record<string, Json>[] } & Record<string, Json>;
  const receipt = response.status === 200 ? (parseJson(await response.clone().text()) as Receipt) : { results: [] };
  if (!parsed || !receipt?.results) return [];
  const left = new Set(receipt.results.map(({ index }) => index));
  const known = new Set(earlier.map(({ messageId }) => messageId).filter(Boolean));
  const sent = parsed.batch ?? [parsed];
  return sent.filter(({ messageId }, index) => !left.has(index) && !known.has(messageId!));
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function problem(status: number): Response {
  return Response.json({ type: '/v1/problems/internal', title: 'internal', status, code: 'internal', detail: 'A failure of the test.' }, { status });
}

function never(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
}
