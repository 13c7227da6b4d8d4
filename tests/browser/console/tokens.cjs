// The token: missing, wrong, and changed by a restart. Without --admin-token the console says which flag is missing.
'use strict';
const { SITE, ConsoleBench, go } = require('./bench.cjs');

// A site of the servers that all areas share.
const SHARED_SITE = 'open';

module.exports = async function tokens(at) {
  await wrongToken(at);
  await changedToken(at);
  await withoutToken(at);
};

async function wrongToken(at) {
  const { page, context } = await at.open(`#publishing?site=${SITE}`, { token: null });
  const input = page.locator('input[name=token]');
  await input.fill('sesame');
  await page.keyboard.press('Enter');
  await page.getByRole('alert').waitFor();
  at.check('a wrong token is named', await page.getByRole('alert').textContent(), 'The token is not the token of --admin-token.');
  at.check('a wrong token is not kept', await page.evaluate(() => sessionStorage.length), 0);
  await input.fill(at.token);
  await page.keyboard.press('Enter');
  await page.getByText('Changed routes').waitFor();
  at.check('no cookie is set', await context.cookies(), []);
  await context.close();
}

// A server that restarts needs the same address. Another address of loopback keeps other processes off the port.
async function changedToken(at) {
  const address = `127.1.${(process.pid >> 8) & 255}.${process.pid & 255 || 1}:9090`;
  const start = (name, token) => at.bench.startServer(name, ['--admin', address, '--admin-token', token]);
  const server = await start('changed-1', 'first');
  const tab = await new ConsoleBench(at.bench, server, 'first').open(`#health?site=${SHARED_SITE}`);
  await tab.page.getByText('Memory limits').waitFor();
  await server.stop();
  await start('changed-2', 'second');
  await go(tab.page, `#publishing?site=${SHARED_SITE}`);
  await tab.page.locator('input[name=token]').waitFor();
  at.check('a changed token is asked for', /not valid any more/.test(await tab.page.locator('form').textContent()), true);
  await tab.page.locator('input[name=token]').fill('second');
  await tab.page.keyboard.press('Enter');
  await tab.page.getByText('Changed routes').waitFor();
  at.check('the state is kept', tab.page.url().split('#')[1], `publishing?site=${SHARED_SITE}`);
  await tab.context.close();
}

async function withoutToken(at) {
  const open = new ConsoleBench(at.bench, at.bench.server, null);
  const { page, context } = await open.open(`#visitors?site=${SHARED_SITE}&anonId=nobody`, { token: null });
  await page.getByText('Erase …').click();
  await page.getByLabel('ID of the visitor').fill('nobody');
  await page.getByText('Erase for ever').click();
  await page.getByRole('alert').waitFor();
  const said = await page.getByRole('alert').textContent();
  at.check('an erasure without a token names the flag', said.includes('--admin-token TOKEN'), true);
  await page.keyboard.press('Escape');
  await context.setOffline(true);
  await page.getByText('Export').click();
  await page.getByText('The server does not answer.').first().waitFor();
  at.check('a lost network is named', true, true);
  await context.close();
}
