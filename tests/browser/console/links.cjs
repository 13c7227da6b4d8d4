// Shared links: the dialog makes and revokes them, and each shows one page without a sign-in, and nothing else.
'use strict';
const { ConsoleBench, go, settled, SITE } = require('./bench.cjs');

// The pages that are shared, with a text that the linked page must show.
const SHARED = [
  ['overview?days=90', 'Overview'],
  ['sources?days=90', 'Sources'],
  ['list?of=page&days=90', 'Whole list'],
  ['funnels?days=90', 'Funnels'],
  ['retention?days=90', 'Retention'],
  ['paths?days=90', 'Paths'],
  ['pages?days=90', 'Pages'],
  ['experiments', 'Experiments'],
  ['experiments?key=letter-wording', 'Experiments'],
  ['audiences', 'Audiences'],
];

module.exports = async function links(at) {
  const tab = await at.open('#overview?days=90');
  const { page } = tab;
  const addresses = [];
  for (const [hash, title] of SHARED) addresses.push([hash, title, await share(at, page, `#${hash}`)]);
  const guest = new ConsoleBench(at.bench, at.server, null);
  for (const [hash, title, address] of addresses) await open(guest, tab, { hash, title, address });
  await narrow(guest, addresses[0][2]);
  await revoke(at, page, addresses[0][2]);
  await tab.context.close();
};

// Makes a link to a page by its dialog. Returns the address.
async function share(at, page, hash) {
  await go(page, hash);
  at.check(`${hash}: the page has no failed answer`, await settled(page), []);
  await page.getByRole('button', { name: 'Share …' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('button', { name: 'Make a link' }).click();
  const address = await dialog.getByText('#link=pxl_').textContent();
  await dialog.getByRole('button', { name: 'Close' }).click();
  await dialog.waitFor({ state: 'detached' });
  return address;
}

const numbersOf = (page) => page.$$eval('main .tile-value, main td', (cells) => cells.map((cell) => cell.textContent.trim()));

// Opens a link in a browser without a token.
async function open(guest, { page: original }, { hash, title, address }) {
  await go(original, `#${hash}`);
  await settled(original);
  const tab = await guest.open(address.slice(guest.url.length + 1), { token: null });
  const { page } = tab;
  const refused = [];
  page.on('response', (response) => response.status() >= 400 && refused.push(`${response.status()} ${response.url()}`));
  await page.getByText(/shared until/).waitFor();
  guest.check(`the link to ${hash}: no failed answer`, await settled(page), []);
  guest.check(`the link to ${hash}: no refused request`, refused, []);
  if (hash.includes('days=')) guest.check(`the link to ${hash}: the days of the range`, await page.locator('header').getByText(/^\d.* – .* 20\d\d$/).count(), 1);
  guest.check(`the link to ${hash}: the title`, await page.title(), `${title} – Parallax`);
  guest.check(`the link to ${hash}: the numbers of the page`, await numbersOf(page), await numbersOf(original));
  guest.check(`the link to ${hash}: no other page, no range and no sign-out`, await page.locator('header a, header select, header button').count(), 0);
  guest.check(`the link to ${hash}: the token is in no URL`, tab.requests.filter((url) => url.includes('pxl_')), []);
  // A click on a row, which filters the page for others, changes nothing.
  const before = await numbersOf(page);
  const row = page.locator('main table button, main table a').first();
  if (await row.count()) await row.click({ force: true });
  guest.check(`the link to ${hash}: a click leaves the page`, [await numbersOf(page), new URL(page.url()).hash], [before, new URL(address).hash]);
  guest.check(`the link to ${hash}: nothing failed after it`, [await settled(page), refused, tab.messages], [[], [], []]);
  await tab.context.close();
}

// A link on a phone, and one in a tab that has the console open.
async function narrow(guest, address) {
  const hash = address.slice(guest.url.length + 1);
  const { page, context } = await guest.open(hash, { token: null, viewport: { width: 400, height: 800 } });
  await page.getByText(/shared until/).waitFor();
  await settled(page);
  guest.check('a link on a phone: nothing is wider than the screen', await page.evaluate(() => document.documentElement.scrollWidth), 400);
  await context.close();
  const other = await guest.open('#overview', { token: 'open-sesame' });
  await other.page.getByRole('button', { name: 'Share …' }).waitFor();
  await go(other.page, hash);
  await other.page.getByText(/shared until/).waitFor();
  guest.check('a link in a tab of the console: the buttons of the console are gone', await other.page.getByRole('button', { name: 'Share …' }).count(), 0);
  await other.context.close();
}

async function revoke(at, page, address) {
  const { page: linked, context } = await at.open(address.slice(at.url.length + 1), { token: null });
  await linked.getByText(/shared until/).waitFor();
  await go(page, `#overview?site=${SITE}`);
  await settled(page);
  await page.getByRole('button', { name: 'Share …' }).click();
  const rows = page.getByRole('dialog').getByRole('listitem');
  await rows.first().waitFor();
  const count = await rows.count();
  at.check('the list of the links: each link is in it', count, SHARED.length);
  await page.getByRole('button', { name: 'Revoke' }).first().click();
  await page.waitForFunction((count) => document.querySelectorAll('dialog li').length === count - 1, count);
  await linked.reload();
  await linked.getByText('This link has ended or was revoked.').waitFor();
  at.check('a revoked link: no form for a token', await linked.locator('input[name=token]').count(), 0);
  await context.close();
}
