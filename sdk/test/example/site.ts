// The built example with a real server and Chromium.
import { type ChildProcess, spawn } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Browser, BrowserContext, BrowserContextOptions, Page } from 'playwright-core';
import { copyDemo, makeKeys } from '../local/site.js';
import { type TestServer, newToken, startServer } from '../server.js';
import { USER_AGENT, launchChromium } from '../chromium.js';
import { type Gateway, startGateway } from './gateway.js';

/** Bounds of a build and of a start on a busy machine. */
const BUILD_MS = 600_000;
const START_MS = 60_000;
/** Bound of a condition that the tests poll. */
const POLL_MS = 30_000;

export const EXAMPLE = path.join(process.env.PARALLAX_SDK!, 'example');
/** The routes that the build renders ahead. */
const ROUTES = '/,/tents,/about,/account/membership,/products/rype-2,/stoves,/help';

export const SECRET = 'the-secret-of-the-tests';
export const PREVIEW_SECRET = 'the-preview-secret-of-the-tests';

export interface Site {
  url: string;
  /** True if the proxy decides in process. */
  isLocal: boolean;
  edge: TestServer;
  gateway: Gateway;
  /** Between `--on-publish` and the site. In the mode `refuse` the site hears of no publication. */
  pushes: Gateway;
  browser: Browser;
  /** The settings of the Next.js server. */
  environment: Record<string, string>;
  /** A token of the admin address with the role `composer`. */
  token: string;
  /** A copy of the source of the demo site, which the tests change. */
  source: string;
  /** Publishes `source` with a higher version. */
  publish(): void;
  /** Ends the Next.js server and starts it again. */
  restart(between?: () => void): Promise<void>;
  /** The output of the Next.js server. */
  log(): string;
  stop(): Promise<void>;
}

/** With `isLocal` the proxy decides in process. */
export async function startSite(directory = EXAMPLE, isLocal = false): Promise<Site> {
  const { port, release } = await reservePort();
  const url = `http://localhost:${port}`;
  const home = mkdtempSync(path.join(tmpdir(), 'parallax-example-'));
  const source = path.join(home, 'site');
  copyDemo(source, isLocal);
  const keys = isLocal ? makeKeys(home) : null;
  const pushes = await startGateway(url);
  const { token, access } = newToken('composer');
  writeFileSync(path.join(home, 'access.toml'), access, { mode: 0o600 });
  const flags = ['--access', path.join(home, 'access.toml'), '--on-publish', `${pushes.url}/api/parallax/revalidate`, '--on-publish-token', SECRET];
  const edge = await startServer(keys ? [...flags, '--visitor-keys', keys.file] : flags, source);
  const gateway = await startGateway(edge.url);
  // The machine of the tests is busy. Another test shows the deadline of 150 ms with a fake clock.
  const local: Record<string, string> = keys ? { DECIDE: 'local', PARALLAX_VISITOR_KEYS: keys.visitorKeys } : {};
  const environment = { ...local, DECISION_MS: '1000', EDGE_URL: gateway.url, SITE_URL: url, SITE_SECRET: SECRET, PREVIEW_SECRET, CLOSED_REVIEWERS: 'left-the-team', EXAMPLE_ROUTES: process.env.EXAMPLE_ROUTES ?? ROUTES };
  await buildExample(directory, environment);
  await release();
  let server = await startNext(directory, port, environment);
  const browser = await launchChromium();
  return {
    url,
    isLocal,
    edge,
    gateway,
    pushes,
    browser,
    environment,
    token,
    source,
    publish: () => edge.publish(source, 'demo', ['--version', String(Date.now())]),
    async restart(between) {
      await server.stop();
      between?.();
      server = await startNext(directory, port, environment);
    },
    log: () => server.log(),
    async stop() {
      await browser.close();
      await server.stop();
      gateway.stop();
      pushes.stop();
      await edge.stop();
      rmSync(home, { recursive: true, force: true });
    },
  };
}

/** A port that no other process gets before `release`. Call it directly before the start of the server. */
export interface ReservedPort {
  port: number;
  release(): Promise<void>;
}

export async function reservePort(): Promise<ReservedPort> {
  const server = createServer((socket) => socket.destroy()); // an open connection would delay the release
  await new Promise<void>((resolve) => server.listen(0, 'localhost', resolve));
  const { port } = server.address() as AddressInfo;
  return { port, release: () => new Promise((resolve) => server.close(() => resolve())) };
}

export interface NextProcess {
  log(): string;
  stop(): Promise<void>;
}

function next(directory: string, args: string[], environment: Record<string, string>): { child: ChildProcess; log: () => string; exited: Promise<number | null> } {
  const env = { ...process.env, NEXT_TELEMETRY_DISABLED: '1', NODE_OPTIONS: '', ...environment };
  const child = spawn(process.execPath, [path.join(directory, 'node_modules/next/dist/bin/next'), ...args], { cwd: directory, env });
  let text = '';
  child.stdout.on('data', (bytes) => (text += bytes));
  child.stderr.on('data', (bytes) => (text += bytes));
  const exited = new Promise<number | null>((resolve) => child.once('exit', resolve));
  process.once('exit', () => child.kill('SIGKILL'));
  return { child, log: () => text, exited };
}

/** Builds the example with the packed packages in place of the copies that the installation made. */
async function buildExample(directory: string, environment: Record<string, string>): Promise<void> {
  for (const name of ['@parallax/sdk', '@parallax/composer']) {
    const installed = path.join(directory, 'node_modules', name);
    if (!existsSync(installed)) throw new Error('The packages of example/ are not installed; run `npm ci` there, or `sdk/run`.');
    rmSync(installed, { recursive: true, force: true });
    cpSync(path.join(process.env.PARALLAX_PACKED!, 'node_modules', name), installed, { recursive: true });
  }
  rmSync(path.join(directory, '.next'), { recursive: true, force: true });
  const begin = Date.now();
  const { child, log, exited } = next(directory, ['build'], environment);
  const timer = setTimeout(() => child.kill('SIGKILL'), BUILD_MS);
  const status = await exited;
  clearTimeout(timer);
  if (status !== 0) throw new Error(`The example does not build:\n${log()}`);
  console.log(`built the example in ${Math.round((Date.now() - begin) / 1000)} s`);
}

export async function startNext(directory: string, port: number, environment: Record<string, string>, command: 'start' | 'dev' = 'start'): Promise<NextProcess> {
  const { child, log, exited } = next(directory, [command, '-H', 'localhost', '-p', String(port)], environment);
  let hasExited = false;
  void exited.then(() => (hasExited = true));
  await until(() => log().includes('Ready in') || hasExited, START_MS);
  if (hasExited) throw new Error(`The site does not start:\n${log()}`);
  return {
    log,
    async stop() {
      child.kill('SIGTERM');
      await exited;
    },
  };
}

/** Polls until a condition holds. */
export async function until(condition: () => boolean | Promise<boolean>, boundMs = POLL_MS): Promise<void> {
  for (const endsAt = Date.now() + boundMs; !(await condition()); await new Promise((resolve) => setTimeout(resolve, 100))) {
    if (Date.now() > endsAt) throw new Error(`Not within ${boundMs} ms: ${condition}`);
  }
}

/** Opens a browser profile of a new visitor. `consent` is the cookie `px_consent`, or null. */
export async function visitor(site: Site, consent: string | null = '1', options: BrowserContextOptions = {}): Promise<BrowserContext> {
  const context = await site.browser.newContext({ userAgent: USER_AGENT, locale: 'en-GB', ...options });
  if (consent) await context.addCookies([{ name: 'px_consent', value: consent, url: site.url }]);
  return context;
}

/** Returns whether a request of a page sends events. With local decisions it asks for a visitor token, too. */
export function isBatch(site: Site, url: string): boolean {
  return url.split('?')[0] === `${site.gateway.url}/v1/batch`;
}

/** Opens a page and waits until it has recorded its view, so that its buttons work. */
export async function open(site: Site, page: Page, pathname: string): Promise<void> {
  const recorded = page.waitForResponse((response) => isBatch(site, response.url()) && response.ok());
  await page.goto(site.url + pathname);
  await recorded;
}

/** The response to a request for a page without a browser. */
export interface PageResponse {
  status: number;
  headers: Headers;
  text: string;
  heading: string | undefined;
}

/** Requests a page as a browser does. Its first visit has no cookies. */
export async function get(site: { url: string }, pathname: string, headers: Record<string, string> = {}): Promise<PageResponse> {
  const response = await fetch(site.url + pathname, { redirect: 'manual', headers: { 'user-agent': USER_AGENT, ...headers } });
  const text = await response.text();
  return { status: response.status, headers: response.headers, text, heading: /<h1[^>]*>([^<]*)/.exec(text)?.[1] };
}
