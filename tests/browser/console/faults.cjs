// Wrong URLs, failed polls, a server that is not ready, a refused first snapshot, and an erasure with a wrong token.
'use strict';
const path = require('node:path');
const { compileDemo } = require('../server.cjs');
const { SITE, go, settled } = require('./bench.cjs');

// More than the console waits between two polls, in milliseconds.
const POLL_MS = 6500;

module.exports = async function faults(at) {
  await wrongUrls(at);
  await earlyChange(at);
  await failedPoll(at);
  await notReady(at);
  await refusedFirstSnapshot(at);
  await wrongTokenOfErasure(at);
  await startingServer(at);
  await preparingServer(at);
  await oneAlert(at);
  await newVersion(at);
  await filtersOfZones(at);
  await lostModule(at);
};

async function wrongUrls(at) {
  const { page, context } = await at.open(`#overview?site=${SITE}&days=x`);
  const faults = [];
  page.on('pageerror', (error) => faults.push(error.message));
  await page.locator('.plot canvas').waitFor();
  at.check('a wrong number of days is the default', await page.getByLabel('Range').inputValue(), '30');
  await go(page, `#overview?site=${SITE}&from=2026-01-01&to=abc`);
  await page.getByRole('alert').first().waitFor();
  at.check('the server refuses a wrong date', await page.getByLabel('Last day').inputValue(), '');
  await go(page, `#overview?site=${SITE}&from=2099-01-01&to=2099-01-03`);
  await page.locator('.card.wide').getByText('None in this range.').waitFor();
  await go(page, `#overview?site=${SITE}`);
  await page.locator('.plot canvas').waitFor();
  at.check('wrong URLs throw nothing', faults, []);
  await context.close();
}

// The fragment changes directly after the first rendering, before the next frame.
async function earlyChange(at) {
  const { page, context } = await at.open('');
  await page.addInitScript(() => {
    new MutationObserver((_, observer) => {
      if (!document.querySelector('main')) return;
      observer.disconnect();
      location.hash = '#publishing';
    }).observe(document, { childList: true, subtree: true });
  });
  await page.reload();
  await page.getByRole('heading', { level: 1, name: 'Publishing' }).waitFor({ state: 'attached' });
  at.check('a change directly after the first rendering is shown', await page.title(), 'Publishing – Parallax');
  await context.close();
}

async function failedPoll(at) {
  const { page, context } = await at.open('#health');
  await page.route('**/insights/live*', (route) => route.abort());
  await go(page, `#overview?site=${SITE}`);
  await page.locator('.live').getByText('The server does not answer.').waitFor();
  at.check('a failed poll has a grey dot', await page.locator('.live .dot').getAttribute('class'), 'dot');
  await context.close();
}

async function notReady(at) {
  const { page, context } = await at.open('');
  const reading = { visitors: { done: 3, of: 10 }, log: { done: 5, of: 2000 } };
  await page.route('**/readyz', (route) => route.fulfill({ status: 503, json: { status: 'starting', recording: false, reading } }));
  await go(page, '#health');
  await page.getByText('read: 3 of 10 visitors, 5 of 2,000 events').waitFor();
  const words = await page.$$eval('main .pill', (pills) => pills.slice(0, 2).map((pill) => pill.textContent));
  at.check('a server that starts shows its progress', words, ['starting', 'not recording events']);
  await context.close();
}

async function refusedFirstSnapshot(at) {
  const { page, context } = await at.open('');
  const files = [{ name: 'first.snapshot', state: 'refused', reason: 'its checksum is wrong', bytes: 1 }];
  await page.route('**/sites', (route) => route.fulfill({ json: { sites: [], files } }));
  await page.reload();
  await go(page, '#publishing');
  const alert = page.getByRole('alert');
  await alert.waitFor();
  at.check('a refused first snapshot is shown', (await alert.textContent()).includes('its checksum is wrong'), true);
  await context.close();
}

async function wrongTokenOfErasure(at) {
  const { page, context } = await at.open(`#visitors?site=${SITE}&anonId=nobody`);
  await page.getByText('Erase …').click();
  await page.getByLabel('ID of the visitor').fill('nobody');
  await page.evaluate(() => sessionStorage.setItem('parallax.token', 'wrong'));
  await page.getByText('Erase for ever').click();
  await page.locator('input[name=token]').waitFor();
  at.check('an erasure with a wrong token asks for the token', await page.title(), 'Visitors – Parallax');
  await context.close();
}

// The first answers are those of a server that reads its log. The page must appear without a reload.
async function startingServer(at) {
  const { page, context } = await at.open('', { token: null });
  await page.clock.install();
  let isStarting = true;
  const starting = { status: 503, json: { code: 'starting', detail: 'The server is starting; /readyz shows the progress.' } };
  await page.route('**/sites', (route) => (isStarting ? route.fulfill(starting) : route.continue()));
  await page.evaluate((token) => sessionStorage.setItem('parallax.token', token), at.token);
  await page.reload();
  const alert = page.getByRole('alert').first();
  await alert.waitFor();
  const said = 'No answer. The server is starting; /readyz shows the progress. The console asks again by itself.';
  at.check('a server that starts is named', (await alert.textContent()).trim(), said);
  isStarting = false;
  await page.clock.runFor(POLL_MS);
  await page.locator('.plot canvas').waitFor();
  at.check('a server that has started is shown without a reload', await page.getByLabel('Site').inputValue(), SITE);
  await context.close();
}

// A question whose column files are not built yet is answered some seconds later.
async function preparingServer(at) {
  const { page, context } = await at.open('#health');
  await page.clock.install();
  const detail = 'The server still prepares 3 segments of its log for questions; retry in some seconds.';
  await page.route('**/insights/overview*', (route) => route.fulfill({ status: 503, json: { code: 'overloaded', detail } }));
  await go(page, `#overview?site=${SITE}`);
  const alert = page.getByRole('alert').first();
  await alert.waitFor();
  at.check('a log that is prepared is named', (await alert.textContent()).includes(detail), true);
  await page.unroute('**/insights/overview*');
  await page.clock.runFor(POLL_MS);
  await page.locator('.plot canvas').waitFor();
  at.check('its numbers are shown without a reload', await page.getByRole('alert').count(), 0);
  await page.route('**/insights/overview*', (route) => route.fulfill({ status: 200, contentType: 'text/html', body: '<p>Sign in' }));
  await go(page, `#overview?site=${SITE}&days=7`);
  await page.getByText('The answer is not from Parallax.').waitFor();
  await context.close();
}

// A page shows a failed answer once, also if it has a sentence and a table of it.
async function oneAlert(at) {
  const { page, context } = await at.open('#health');
  const detail = 'The question takes more than 10 s; ask for a shorter range.';
  for (const [name, question, params] of [
    ['sources', 'insights/top?*of=source*', ''],
    ['funnels', 'insights/funnel?*', '&step=page:/&step=purchase'],
    ['retention', 'insights/retention?*', ''],
    ['paths', 'insights/paths?*', ''],
  ]) {
    await page.route(`**/${question}`, (route) => route.fulfill({ status: 422, json: { code: 'query_too_expensive', detail } }));
    await go(page, `#${name}?site=${SITE}${params}`);
    await page.getByRole('alert').first().waitFor();
    at.check(`a failed answer has one alert, ${name}`, await settled(page), [`No answer. ${detail}`]);
    await page.unroute(`**/${question}`);
  }
  await context.close();
}

// A version that is published while the page is open. Polls without a change draw nothing again.
async function newVersion(at) {
  const { page, context } = await at.open(`#overview?site=${SITE}`);
  await page.clock.install();
  await page.reload();
  await page.locator('.plot canvas').waitFor();
  await settled(page);
  const drawn = await page.locator('.plot canvas').elementHandle();
  for (let poll = 0; poll < 3; poll += 1) {
    const answer = page.waitForResponse('**/sites');
    await page.clock.runFor(POLL_MS);
    await (await answer).finished();
  }
  at.check('a poll without a change keeps the chart', await drawn.evaluate((canvas) => canvas.isConnected), true);
  compileDemo(at.bench.places, { version: 2 }, path.join(at.server.snapshots, 'fjell-2.snapshot'));
  while ((await at.ask('sites')).sites[0].version !== '2');
  await page.clock.runFor(POLL_MS);
  await page.getByText('version 2').waitFor();
  at.check('a new version is shown without a reload', await page.locator('.version').textContent(), 'version 2');
  await go(page, `#publishing?site=${SITE}`);
  await page.getByText('fjell-2.snapshot').waitFor();
  await context.close();
}

async function filtersOfZones(at) {
  const { page, context } = await at.open(`#pages?site=${SITE}&path=%2F`);
  const words = page.getByText('The filters do not apply to zones.');
  await page.getByText('Zone hero').waitFor();
  at.check('without a filter there is no word about filters', await words.count(), 0);
  await go(page, `#pages?site=${SITE}&path=%2F&country=NO`);
  await words.waitFor();
  await settled(page);
  const { zones } = await at.ask('insights/zones', { page: '/' });
  const shown = await page.$$eval('table[aria-label="Variants of hero"] tbody td:nth-child(2)', (cells) =>
    cells.map(({ textContent }) => Number(textContent.replaceAll(',', ''))),
  );
  const expected = zones.find(({ zone }) => zone === 'hero').variants.map(({ visitors }) => visitors);
  at.check('the zones have the numbers of all visitors', shown, expected);
  await context.close();
}

// The module of a page is loaded when the page is opened, and a lost one can be loaded again.
async function lostModule(at) {
  const { page, context, requests } = await at.open(`#overview?site=${SITE}`);
  await page.locator('.plot canvas').waitFor();
  const modules = ['overview', 'sources', 'experiments'].map((name) => requests.some((url) => url.endsWith(`/console/${name}.js`)));
  at.check('only the module of the opened page is loaded', modules, [true, false, false]);
  await page.route('**/console/sources.js', (route) => route.abort());
  await go(page, `#sources?site=${SITE}`);
  const alert = page.getByRole('alert');
  await alert.waitFor();
  at.check('a page that cannot be loaded says so', (await alert.textContent()).includes('The console could not load this page.'), true);
  await go(page, `#overview?site=${SITE}`);
  await page.locator('.plot canvas').waitFor();
  at.check('the other pages stay usable', await page.getByRole('alert').count(), 0);
  await page.unroute('**/console/sources.js');
  await go(page, `#sources?site=${SITE}`);
  await page.locator('table[aria-label=Campaigns]').or(page.getByText('Load it again')).first().waitFor();
  if ((await page.getByText('Load it again').count()) > 0) await page.getByText('Load it again').click();
  await page.locator('table[aria-label=Campaigns]').waitFor();
  at.check('a lost page can be loaded again', await settled(page), []);
  await context.close();
}
