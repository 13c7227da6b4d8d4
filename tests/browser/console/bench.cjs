// Tabs of the console, and requests to the same admin address without a browser.
'use strict';
const { STEP_MS } = require('../server.cjs');

const SITE = 'fjell';
const TRACKING_ID = 'track_demo';

class ConsoleBench {
  constructor(bench, server, token) {
    Object.assign(this, { bench, server, token, url: server.adminUrl });
  }

  check(...check) {
    this.bench.check(...check);
  }

  // Asks the admin address. Returns the JSON of the answer.
  async ask(path, params = {}, init = {}) {
    const query = new URLSearchParams({ site: SITE, ...params });
    const headers = { Authorization: `Bearer ${this.token}`, ...init.headers };
    const response = await fetch(`${this.url}/${path}?${query}`, { ...init, headers });
    return response.json();
  }

  // Records events.
  async send(events) {
    const body = JSON.stringify({ trackingId: TRACKING_ID, batch: events });
    const response = await fetch(`${this.server.url}/v1/batch`, { method: 'POST', body });
    const receipt = await response.json();
    if (receipt.accepted !== events.length) throw new Error(`not recorded: ${JSON.stringify(receipt)}`);
  }

  // Opens a tab with an empty session. `token` null signs in nobody.
  async open(hash, { token = this.token, ...options } = {}) {
    const context = await this.bench.browser.newContext({ viewport: { width: 1200, height: 900 }, ...options });
    context.setDefaultTimeout(STEP_MS);
    if (token !== null) await context.addInitScript((token) => sessionStorage.setItem('parallax.token', token), token);
    const page = await context.newPage();
    const tab = { page, context, messages: [], requests: [] };
    page.on('console', (message) => tab.messages.push(`${message.type()}: ${message.text()}`));
    page.on('pageerror', (error) => tab.messages.push(`error: ${error.message}`));
    page.on('request', (request) => tab.requests.push(request.url()));
    await page.goto(`${this.url}/${hash}`);
    return tab;
  }

  // Returns the requests of a tab to other hosts. A file that the page itself made is `blob:`.
  foreignRequests({ requests }) {
    return requests.filter((url) => !url.startsWith(`${this.url}/`) && !url.startsWith(`blob:${this.url}/`) && !url.startsWith('data:'));
  }
}

// Goes to another page of the console by its fragment.
async function go(page, hash) {
  await page.evaluate((hash) => {
    location.hash = hash;
  }, hash);
}

// Waits until a page shows its answers, and returns the sentences of failed ones.
async function settled(page) {
  await page.waitForFunction(() => {
    const main = document.querySelector('main');
    return main && !main.querySelector('[aria-busy=true]') && !/Loading …/.test(main.textContent) && main.textContent.trim() !== '';
  });
  return page.$$eval('[role=alert]', (alerts) => alerts.map((alert) => alert.textContent.trim()));
}

module.exports = { ConsoleBench, SITE, go, settled };
