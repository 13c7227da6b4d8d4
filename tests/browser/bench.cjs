// The bench that all checks share: a browser, pages of several origins, a server with two sites, and the report.
'use strict';
const http = require('node:http');
const { createRequire } = require('node:module');
const path = require('node:path');
const { isDeepStrictEqual } = require('node:util');
const { STEP_MS, Server, compileSite } = require('./server.cjs');

const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium';
const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];
// The server counts HeadlessChrome as a crawler. The checks are visitors.
const USER_AGENT = 'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0.0.0 Safari/537.36';

class Bench {
  static async start(places) {
    const bench = new Bench(places);
    // Pages of two ports are two origins. `localhost` and 127.0.0.1 are also two sites for cookies.
    const [listed, other] = [await bench.startPages(), await bench.startPages()];
    compileSite(places, 'listed', [`http://127.0.0.1:${listed}`, 'http://localhost:*']);
    bench.snapshots = compileSite(places, 'open', []);
    bench.callers = [
      { name: 'an origin of the list', site: 'listed', origin: `http://127.0.0.1:${listed}` },
      { name: 'an origin of a pattern', site: 'listed', origin: `http://localhost:${other}` },
      { name: 'any origin, empty list', site: 'open', origin: `http://localhost:${other}` },
    ];
    bench.stranger = { name: 'a foreign origin', site: 'listed', origin: `http://127.0.0.1:${other}` };
    bench.server = await bench.startServer('main', ['--explain']);
    const { chromium } = createRequire(path.join(places.modules, 'x.cjs'))('playwright-core');
    bench.browser = await chromium.launch({ executablePath: CHROMIUM, args: FLAGS });
    return bench;
  }

  constructor(places) {
    Object.assign(this, { places, pageBodies: new Map(), profiles: new Map(), tabs: new Map(), checks: 0, faults: 0 });
  }

  // Starts a server with both sites.
  async startServer(name, flags) {
    return Server.start(this.places, this.snapshots, name, flags);
  }

  // Serves `pageBodies` by path, and an empty page elsewhere. Returns the port.
  startPages() {
    const pages = http.createServer((request, response) => {
      const [type, body] = this.pageBodies.get(request.url.split('?')[0]) ?? ['text/html', '<!doctype html><title>page</title>'];
      response.writeHead(200, { 'Content-Type': `${type}; charset=utf-8` }).end(body);
    });
    return new Promise((resolve) => {
      pages.listen(0, '127.0.0.1', () => resolve(pages.address().port));
    });
  }

  // Opens a page of the caller's origin. Each caller has a profile of its own.
  async open(caller, pathname = '/') {
    if (!this.profiles.has(caller)) this.profiles.set(caller, this.newProfile());
    const page = await (await this.profiles.get(caller)).newPage();
    await page.goto(caller.origin + pathname);
    return page;
  }

  async newProfile() {
    const profile = await this.browser.newContext({ userAgent: USER_AGENT });
    profile.setDefaultTimeout(STEP_MS);
    return profile;
  }

  // Lets a page of the caller's origin fetch. Returns what its script can read.
  async fetch(caller, url, init = {}) {
    if (!this.tabs.has(caller)) this.tabs.set(caller, await this.open(caller));
    return read(this.tabs.get(caller), url, init);
  }

  // Runs a check for several callers, or other rows of a table, at the same time.
  each(rows, check) {
    return Promise.all(rows.map(check));
  }

  check(name, actual, expected) {
    this.checks += 1;
    if (isDeepStrictEqual(actual, expected)) {
      console.log(`ok    ${name}`);
    } else {
      this.faults += 1;
      console.log(`FAIL  ${name}: expected ${JSON.stringify(expected)}, got ${JSON.stringify(actual)}`);
    }
  }
}

// Fetches in a page or frame, with credentials unless `init` says otherwise. Returns the parts of the response that the
// script can read, or the error. `bodyBytes` makes a body of that size.
function read(frame, url, init = {}) {
  const timed = async ([url, { bodyBytes, ...init }, timeoutMs]) => {
    if (bodyBytes !== undefined) init.body = 'x'.repeat(bodyBytes);
    const options = { method: init.body === undefined ? 'GET' : 'POST', credentials: 'include', ...init };
    try {
      const response = await fetch(url, { ...options, signal: AbortSignal.timeout(timeoutMs) });
      const text = await response.text();
      const body = text.startsWith('{') ? JSON.parse(text) : text;
      return { status: response.status, body, headers: Object.fromEntries(response.headers) };
    } catch (error) {
      return { error: error.name };
    }
  };
  return frame.evaluate(timed, [url, init, STEP_MS + 5000]);
}

// Returns status and code of a problem that a script read, or the error.
function problem(response) {
  return response.error ? response : [response.status, response.body.code];
}

module.exports = { Bench, problem, read };
