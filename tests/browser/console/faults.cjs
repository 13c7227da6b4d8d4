// Wrong URLs, failed polls, a server that is not ready, a refused first snapshot, and an erasure with a wrong token.
'use strict';
const { SITE, go } = require('./bench.cjs');

module.exports = async function faults(at) {
  await wrongUrls(at);
  await failedPoll(at);
  await notReady(at);
  await refusedFirstSnapshot(at);
  await wrongTokenOfErasure(at);
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
