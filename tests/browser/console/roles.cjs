// The console of each role: it shows the pages of the role, sends no request that the role may not send, and names the person.
'use strict';
const { spawnSync } = require('node:child_process');
const { writeFileSync } = require('node:fs');
const http = require('node:http');
const path = require('node:path');
const { ConsoleBench, go, settled } = require('./bench.cjs');

const SITE = 'open';
const NUMBERS = ['Overview', 'Sources', 'Funnels', 'Retention', 'Paths', 'Pages', 'Experiments'];
const PAGES = {
  viewer: [...NUMBERS, 'Audiences', 'Publishing'],
  analyst: [...NUMBERS, 'Audiences', 'Visitors', 'Publishing'],
  privacy: [...NUMBERS, 'Audiences', 'Visitors', 'Publishing'],
  composer: ['Audiences', 'Visitors', 'Publishing'],
  operator: [...NUMBERS, 'Audiences', 'Visitors', 'Publishing', 'Health'],
};
const VISITOR = `#visitors?site=${SITE}&anonId=nobody&route=/`;

module.exports = async function roles(at) {
  const { places } = at.bench;
  const tokens = {};
  let file = '';
  for (const role of Object.keys(PAGES)) {
    const sites = role === 'operator' ? [] : ['--site', SITE];
    const made = spawnSync(places.parallax, ['token', 'new', '--name', `the ${role}`, '--role', role, ...sites], { encoding: 'utf8' });
    tokens[role] = made.stderr.trim().split(' ').pop();
    file += `${made.stdout}[[user]]\nmatch = "${role}@example.com"\nrole = "${role}"\nsites = ["${role === 'operator' ? '*' : SITE}"]\n`;
  }
  const access = path.join(places.directory, 'access.toml');
  writeFileSync(access, file, { mode: 0o600 });
  const people = ['--trusted-proxy', '127.0.0.1', '--trusted-user-header', 'X-Forwarded-Email'];
  const server = await at.bench.startServer('roles', ['--access', access, ...people]);
  for (const role of Object.keys(PAGES)) await lookAs(new ConsoleBench(at.bench, server, tokens[role]), role);
  await signedInByProxy(at, server);
};

async function lookAs(at, role) {
  const tab = await at.open('');
  const { page } = tab;
  const refused = [];
  page.on('response', (response) => [401, 403, 404, 405].includes(response.status()) && refused.push(`${response.status()} ${response.url()}`));
  // The navigation is that of the rights, which arrive with the name.
  await page.locator('header').getByText(`the ${role}`).waitFor();
  const titles = await page.getByRole('navigation').getByRole('link').allTextContents();
  at.check(`${role}: the pages of the navigation`, titles, PAGES[role]);
  at.check(`${role}: the name of the token`, await page.locator('header').getByText(`the ${role}`).count(), 1);
  for (const title of titles) {
    await page.getByRole('navigation').getByRole('link', { name: title, exact: true }).click();
    at.check(`${role}, ${title}: no failed answer`, await settled(page), []);
  }
  const seesVisitors = PAGES[role].includes('Visitors');
  if (seesVisitors) await lookAtVisitor(at, tab, role);
  at.check(`${role}: no request is refused`, refused, []);
  for (const [hash, title] of [['#overview', 'Overview'], ['#health', 'Health'], [VISITOR, 'Visitors']]) {
    if (PAGES[role].includes(title)) continue;
    await go(page, hash);
    await page.getByText(`Your role does not show ${title}`).waitFor();
    await page.getByRole('link', { name: `Open ${PAGES[role][0]}` }).click();
    at.check(`${role}: from ${title} to a page of the role`, await settled(page), []);
  }
  at.check(`${role}: no hidden page sends a refused request`, refused, []);
  await tab.context.close();
}

async function lookAtVisitor(at, { page, requests }, role) {
  await go(page, VISITOR);
  await settled(page);
  const isInvented = await page.getByText('for a visitor without a past').count();
  at.check(`${role}: the visitor is invented`, isInvented, role === 'composer' ? 1 : 0);
  const mayErase = ['privacy', 'operator'].includes(role);
  at.check(`${role}: the button of the erasure`, await page.getByText('Erase …').count(), mayErase ? 1 : 0);
  at.check(`${role}: the button of the export`, await page.getByText('Export', { exact: true }).count(), mayErase ? 1 : 0);
  at.check(`${role}: the decision is explained`, requests.some((url) => url.includes('/v1/resolve?') && url.includes('explain=1')), true);
}

// A proxy that has signed in a person. It removes the header of its clients, and leaves the host as it is.
async function signedInByProxy(at, server) {
  let person = 'privacy@example.com';
  const proxy = http.createServer((request, response) => {
    if (person === null) return response.writeHead(302, { Location: 'http://127.0.0.1:9/sign-in' }).end();
    const headers = { ...request.headers, 'x-forwarded-email': person };
    const passed = http.request(`${server.adminUrl}${request.url}`, { method: request.method, headers }, (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      answer.pipe(response);
    });
    request.pipe(passed);
  });
  await new Promise((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  const behind = new ConsoleBench(at.bench, { adminUrl: `http://127.0.0.1:${proxy.address().port}` }, null);
  const { page, context } = await behind.open(`#visitors?site=${SITE}&anonId=nobody`, { token: null });
  await page.getByText('Erase …').click();
  at.check('a person: the name', await page.locator('header').getByText(person).count(), 1);
  at.check('a person: no button to sign out', await page.getByText('Sign out').count(), 0);
  await page.getByLabel('ID of the visitor').fill('nobody');
  const answer = page.waitForResponse((response) => response.request().method() === 'DELETE');
  await page.getByText('Erase for ever').click();
  // Nothing of the visitor is known. The request was not refused for its origin.
  at.check('a person: an erasure from the own page is accepted', (await (await answer).json()).code, 'visitor_not_found');
  person = 'stranger@example.com';
  await page.reload();
  await page.getByText('The access file of the server does not list').first().waitFor();
  at.check('a stranger: no form for a token', await page.locator('input[name=token]').count(), 0);
  person = null;
  await page.evaluate(() => dispatchEvent(new Event('hashchange')));
  await page.getByText('You are signed out by the proxy.').first().waitFor();
  await context.close();
  proxy.closeAllConnections();
  proxy.close();
}
