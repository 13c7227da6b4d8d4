// The changes that a superseded file and a file of this computer would make: by keyboard, on a phone, with axe, and with the numbers
// of the server.
'use strict';
const { readFileSync } = require('node:fs');
const path = require('node:path');
const { Server, compileDemo } = require('../server.cjs');
const { ConsoleBench, SITE, go, settled } = require('./bench.cjs');
const { LOOKS, checkRules, openWithAxe, picture } = require('./pages.cjs');
const { tabTo } = require('./tasks.cjs');

// The most bytes of the body of a request.
const PART_BYTES_MAX = 512 * 1024;
const HOSTILE_NAME = '<img src=x onerror=globalThis.hacked=1>\u202E.snapshot';

module.exports = async function changes(at) {
  const server = await Server.startDemo(at.bench.places, 'changes', ['--admin-token', at.token]);
  const bench = new ConsoleBench(at.bench, server, at.token);
  const [file] = (await bench.ask('sites')).files;
  const upload = path.join(at.bench.places.directory, 'upload.snapshot');
  await publishNext(bench, upload);
  const tab = await bench.open(`#publishing?site=${SITE}`);
  await ofSuperseded(bench, tab.page, file.name);
  await ofUpload(bench, tab, upload);
  await ofServedFile(bench, tab.page, server);
  at.check('comparisons leave no message of the browser', tab.messages, []);
  await ofWrongFiles(bench, tab.page, upload);
  await ofLostServer(bench, tab.page);
  await ofAnotherSite(bench, tab.page, file.name);
  await tab.context.close();
  for (const look of LOOKS) await looks(bench, look, file.name);
  await server.stop();
  await withoutToken(at);
};

// Enrols visitors in the first version, and publishes a second one in which an experiment, zones, audiences and the holdout differ.
async function publishNext(at, upload) {
  const page = (number) => ({ type: 'page', anonId: `changes-${number}`, properties: { path: '/' }, experiments: 'slow-front:slow' });
  await at.send(Array.from({ length: 5 }, (_, number) => page(number)));
  const changes = { version: 2, timeZone: 'Europe/Helsinki', holdout: { share: 0.2 } };
  compileDemo(at.bench.places, changes, path.join(at.server.snapshots, 'second.snapshot'), { 'slow-front': { weights: [0.4, 0.6] } });
  compileDemo(at.bench.places, { version: 3 }, upload, { 'slow-front': { coverage: 0.5 } });
  while ((await at.ask('sites')).sites[0].version !== '2');
}

// Waits until the page shows the comparison of a file.
async function compared(page, name) {
  await page.locator('strong', { hasText: `${name}, version` }).waitFor();
  await settled(page);
}

const rowsOf = (page, label) =>
  page.$$eval(`table[aria-label="${label}"] tbody tr`, (rows) => rows.map((row) => [...row.children].map((cell) => cell.textContent)));

// Compares the shown tables with an answer of the server.
async function sameAsServer(at, page, label, answer) {
  const capital = (text) => text[0].toUpperCase() + text.slice(1);
  const count = (value) => (value === null ? '–' : String(value));
  const experiments = answer.experiments.map(({ key, text, enrolled }) => [key, capital(text), count(enrolled.before), count(enrolled.after)]);
  const zones = answer.zones.map(({ name, atLeast, atMost }) => [name, String(atLeast), String(atMost)]);
  const audiences = answer.audiences.map(({ name, change, atLeast, atMost }) => [name, capital(change), String(atLeast), String(atMost)]);
  at.check(`${label}: the experiments are those of the server`, await rowsOf(page, 'Experiments that change'), experiments);
  const shownZones = (await rowsOf(page, 'Zones that change')).map(([name, , , atLeast, atMost]) => [name, atLeast, atMost]);
  at.check(`${label}: the zones are those of the server`, shownZones, zones);
  at.check(`${label}: the audiences are those of the server`, await rowsOf(page, 'Audiences that change'), audiences);
  const holdout = await page.getByText(`Holdout of the site: ${answer.holdout?.text}.`).count();
  at.check(`${label}: the holdout is that of the server`, holdout, answer.holdout ? 1 : 0);
}

async function ofSuperseded(at, page, name) {
  const buttons = page.getByRole('button', { name: /^What would change/ });
  await buttons.first().waitFor();
  at.check('each superseded file has a button', await buttons.allTextContents(), [`What would change? ${name}`]);
  await tabTo(page, `What would change? ${name}`);
  await page.keyboard.press('Enter');
  await compared(page, name);
  const answer = await at.ask('insights/changes', { file: name }, { method: 'POST' });
  at.check('the second version differs in each kind', [answer.experiments, answer.zones, answer.audiences].map(({ length }) => length > 0), [true, true, true]);
  at.check('and has enrolled IDs', answer.experiments.find(({ key }) => key === 'slow-front').enrolled, { before: 0, after: 5 });
  await sameAsServer(at, page, 'a superseded file', answer);
  const isFocused = await page.evaluate(() => document.activeElement.textContent.includes('Experiments that change'));
  at.check('the focus moves to the comparison', isFocused, true);
  at.check('the button can be used again', await buttons.first().isEnabled(), true);
}

async function ofUpload(at, { page, requests }, file) {
  const before = requests.length;
  await page.getByLabel('Compare a snapshot file').setInputFiles(file);
  await page.getByRole('button', { name: 'Compare', exact: true }).focus();
  await page.keyboard.press('Enter');
  await compared(page, path.basename(file));
  const bytes = readFileSync(file);
  const sent = requests.slice(before).filter((url) => url.includes('insights/changes'));
  const offsets = Array.from({ length: Math.ceil(bytes.length / PART_BYTES_MAX) }, (_, part) => String(part * PART_BYTES_MAX));
  at.check('a file is sent in parts', sent.map((url) => new URL(url).searchParams.get('offset')), offsets);
  let answer;
  for (const offset of offsets.map(Number)) {
    const body = bytes.subarray(offset, offset + PART_BYTES_MAX);
    answer = await at.ask('insights/changes', { offset }, { method: 'POST', body });
  }
  await sameAsServer(at, page, 'a file of this computer', answer);
  const words = await page.locator('p', { hasText: `${path.basename(file)}, version 3, in place of version 2:` }).count();
  at.check('the sentence names both versions', words, 1);
}

async function ofServedFile(at, page, server) {
  await page.getByLabel('Compare a snapshot file').setInputFiles(path.join(server.snapshots, 'second.snapshot'));
  await page.getByRole('button', { name: 'Compare', exact: true }).click();
  await page.getByText('No experiment, zone or audience changes, and the holdout of the site stays.').waitFor();
  at.check('the served version has no tables', await page.locator('table[aria-label$="that change"]').count(), 0);
}

// Files that are no snapshot of the site. The name is a text.
async function ofWrongFiles(at, page, upload) {
  const bytes = readFileSync(upload);
  const other = path.join(at.bench.places.directory, 'other site.snapshot');
  compileDemo(at.bench.places, { site: 'other', trackingId: 'track_other' }, other);
  for (const [label, buffer, words] of [
    ['no snapshot', Buffer.alloc(100), 'not a snapshot'],
    ['an empty file', Buffer.alloc(0), 'incomplete: 0 of 80 bytes'],
    ['an incomplete file', bytes.subarray(0, 200_000), `The file is incomplete: 200,000 of ${bytes.length.toLocaleString('en-GB')} bytes.`],
    ['a file that is too long', Buffer.concat([bytes, Buffer.alloc(1)]), 'the file is longer than its header says'],
    ['another site', readFileSync(other), `The snapshot has site other, and the parameter 'site' is ${SITE}.`],
  ]) {
    await page.getByLabel('Compare a snapshot file').setInputFiles({ name: HOSTILE_NAME, mimeType: 'application/octet-stream', buffer });
    await page.getByRole('button', { name: 'Compare', exact: true }).click();
    const alert = page.getByRole('alert').filter({ hasText: words });
    await alert.waitFor();
    at.check(`${label} is refused in words`, await alert.locator('bdi').first().textContent(), HOSTILE_NAME);
  }
  at.check('the name of a file is a text', await page.evaluate(() => [globalThis.hacked, document.querySelectorAll('main img').length]), [undefined, 0]);
}

async function ofLostServer(at, page) {
  let answer;
  const asked = new Promise((resolve) => {
    page.route('**/insights/changes*', (route) => {
      answer = route;
      resolve();
    });
  });
  const button = page.getByRole('button', { name: /^What would change/ });
  await button.click();
  await asked;
  await page.getByRole('status').filter({ hasText: 'The server compares the versions and counts the visitors.' }).waitFor();
  at.check('one comparison runs at a time', [await button.isDisabled(), await page.getByRole('button', { name: 'Compare', exact: true }).isDisabled()], [true, true]);
  await answer.abort();
  await page.getByRole('alert').filter({ hasText: 'The server does not answer.' }).waitFor();
  at.check('a failed comparison can be repeated', await button.isEnabled(), true);
  await page.unroute('**/insights/changes*');
}

// The result of a site is not shown below another one.
async function ofAnotherSite(at, page, name) {
  await page.route('**/sites', async (route) => {
    const response = await route.fetch();
    const answer = await response.json();
    const other = { ...answer.sites[0], site: 'other', name: 'Other site' };
    await route.fulfill({ response, json: { ...answer, sites: [...answer.sites, other] } });
  });
  await page.reload();
  await page.getByRole('button', { name: /^What would change/ }).click();
  await compared(page, name);
  await page.locator('header select').first().selectOption('other');
  await page.getByText('The file must be one of site other.').waitFor();
  at.check('another site has no comparison', await page.locator('strong', { hasText: `${name}, version` }).count(), 0);
  await page.unroute('**/sites');
}

async function looks(at, [look, options], name) {
  const { page, context } = await openWithAxe(at, `#health?site=${SITE}`, options);
  await go(page, `#publishing?site=${SITE}`);
  await page.getByRole('button', { name: /^What would change/ }).click();
  await compared(page, name);
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  at.check(`nothing is wider than the screen, ${look}: a comparison`, width <= (options.viewport?.width ?? 1200), true);
  await checkRules(at, page, `${look}: a comparison`);
  await picture(page, `comparison-${look.replace(' ', '-')}`);
  await context.close();
}

async function withoutToken(at) {
  const server = await Server.startDemo(at.bench.places, 'changes-open');
  const bench = new ConsoleBench(at.bench, server, null);
  const { page, context } = await bench.open(`#publishing?site=${SITE}`);
  await page.getByLabel('Compare a snapshot file').setInputFiles({ name: 'a.snapshot', mimeType: 'application/octet-stream', buffer: Buffer.alloc(100) });
  await page.getByRole('button', { name: 'Compare', exact: true }).click();
  const alert = page.getByRole('alert').filter({ hasText: 'start the server with --admin-token TOKEN' });
  await alert.waitFor();
  at.check('without a token the flag is named', await alert.count(), 1);
  await context.close();
  await server.stop();
}
