// The IDs of visitors and the URLs of requests: a proxy below whose path the console is mounted logs them.
'use strict';
const http = require('node:http');
const { SITE, ConsoleBench, settled } = require('./bench.cjs');

const ANON_ID = 'private-visitor-4711';
const USER_ID = 'private åse & co';
const PATH = '/parallax/';

module.exports = async function privacy(at) {
  const proxy = await startProxy(at.url);
  const behind = Object.assign(new ConsoleBench(at.bench, at.server, at.token), { url: proxy.url });
  for (const [kind, label, id] of [
    ['anonId', 'Anonymous ID', ANON_ID],
    ['userId', 'User ID', USER_ID],
  ]) {
    await at.send([
      { type: 'identify', anonId: ANON_ID, userId: USER_ID },
      { type: 'page', anonId: ANON_ID, properties: { path: '/tents' } },
    ]);
    const { page, context } = await behind.open(`#visitors?site=${SITE}`, { acceptDownloads: true });
    await page.getByLabel('Kind of ID').selectOption(kind);
    await page.locator('input[name=id]').fill(id);
    await page.getByText('Find', { exact: true }).click();
    await page.locator('.timeline').getByText('/tents').waitFor();
    await page.getByText('Explain', { exact: true }).click();
    await page.getByText('Outline of the page').first().waitFor();
    await settled(page);
    const saved = page.waitForEvent('download');
    await page.getByText('Export', { exact: true }).click();
    await saved;
    await page.getByText('Erase …').click();
    await page.getByLabel('ID of the visitor').fill(id);
    await page.getByText('Erase for ever').click();
    await page.getByText('Nothing of the visitor is left on disk.').waitFor();
    await settled(page);
    at.check(`the address of the tab names the visitor, ${label}`, new URLSearchParams(page.url().split('?')[1]).get(kind), id);
    await context.close();
  }
  proxy.close();
  const asked = new Set(proxy.requests.map(({ method, url }) => `${method} ${url.split('?')[0]}`));
  const expected = ['GET visitors', 'GET visitors/records', 'GET visitors/export', 'GET v1/resolve', 'DELETE visitors'];
  at.check(
    'every request about a visitor passed the proxy',
    expected.filter((request) => !asked.has(request.replace(' ', ` ${PATH}`))),
    [],
  );
  const named = proxy.requests.filter(({ url }) => /private|4711|userId|anonId/.test(url));
  at.check('no URL of a request has the ID of a visitor', named, []);
};

// Starts a proxy that passes the requests below a path on, and keeps their methods and URLs as its log would.
function startProxy(target) {
  const requests = [];
  const { hostname, port } = new URL(target);
  const server = http.createServer((request, response) => {
    const { method, url, headers } = request;
    requests.push({ method, url, referrer: headers.referer });
    const path = `/${url.slice(PATH.length)}`;
    const passed = http.request({ hostname, port, method, path, headers }, (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      answer.pipe(response);
    });
    passed.on('error', () => response.destroy());
    request.pipe(passed);
  });
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => {
      const url = `http://127.0.0.1:${server.address().port}${PATH.slice(0, -1)}`;
      resolve({ url, requests, close: () => server.closeAllConnections() });
    });
  });
}
