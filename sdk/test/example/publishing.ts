import assert from 'node:assert/strict';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { SECRET, type Site, get, until } from './site.js';

/** The bounds from a publication to its page, with and without `--on-publish`. The second has the 5 s of the route table. */
const PUSHED_SECONDS = 2;
const POLLED_SECONDS = 7;

export function publishingCases(site: () => Site): void {
  const file = (name: string) => path.join(site().source, 'routes', name);
  const edit = (name: string, from: string, to: string) => {
    const text = readFileSync(file(name), 'utf8');
    assert.ok(text.includes(from), `${name} has no "${from}"`);
    writeFileSync(file(name), text.replace(from, to));
  };
  const renders = (from: number) =>
    new Set(site().gateway.requests.slice(from).filter((target) => target.includes('/v1/resolve')).map((target) => new URL(target.slice(4), 'http://edge').searchParams.get('route')));

  const revalidate = async () => (await fetch(`${site().url}/api/parallax/revalidate`, { method: 'POST', headers: { authorization: `Bearer ${SECRET}` } })).json();
  /** Polls until the handler has rendered the pages that it marked. */
  const allRendered = () => until(async () => (await revalidate()).unrendered === 0);

  /** Publishes and requests a page until it satisfies the condition. Returns the seconds. */
  async function publishUntil(pathname: string, isNew: (page: Awaited<ReturnType<typeof get>>) => boolean): Promise<number> {
    const begin = Date.now();
    site().publish();
    await until(async () => isNew(await get(site(), pathname)));
    return (Date.now() - begin) / 1000;
  }

  test('a publication shows without a build, and untouched pages are not rendered again', async () => {
    for (const pathname of ['/about', '/stoves', '/']) await get(site(), pathname);
    const before = site().gateway.requests.length;
    edit('tents.json', 'A roof you can carry', 'A roof for the third day');
    await publishUntil('/tents', ({ heading }) => heading === 'A roof for the third day');
    for (const pathname of ['/about', '/stoves', '/']) assert.equal((await get(site(), pathname)).headers.get('x-nextjs-cache'), 'HIT', pathname);
    assert.deepEqual([...renders(before)], ['/tents']);
    edit('about.json', 'In figures', 'In numbers');
    await publishUntil('/about', ({ text }) => text.includes('In numbers'));
    assert.deepEqual([...renders(before)].sort(), ['/about', '/tents']);
    assert.equal((await get(site(), '/stoves')).headers.get('x-nextjs-cache'), 'HIT');
  });

  test('a publication is pushed within 2 s, also if no page is requested', async () => {
    edit('about.json', 'In numbers', 'In a few numbers');
    const before = site().gateway.requests.length;
    const begin = Date.now();
    site().publish();
    await until(() => renders(before).has('/about'));
    await until(async () => (await get(site(), '/about')).text.includes('In a few numbers'));
    const seconds = (Date.now() - begin) / 1000;
    console.log(`publication to page, pushed: ${seconds} s`);
    assert.ok(seconds <= PUSHED_SECONDS, `${seconds} s`);
  });

  test('without `--on-publish` a publication shows within 7 s', async () => {
    site().pushes.set('refuse');
    edit('about.json', 'In a few numbers', 'In many numbers');
    const seconds = await publishUntil('/about', ({ text }) => text.includes('In many numbers'));
    site().pushes.set('open');
    console.log(`publication to page, polled: ${seconds} s`);
    assert.ok(seconds <= POLLED_SECONDS, `${seconds} s`);
  });

  test('a new route appears and a removed one disappears, also with letters beyond ASCII', async () => {
    const page = { path: '/størrelser/ö å', layout: { root: { props: { title: 'New' } }, zones: { main: [{ id: 'n', type: 'Hero', props: { title: 'Sizes', text: 'All.' } }] } } };
    const url = encodeURI(page.path);
    assert.equal((await get(site(), url)).status, 404);
    writeFileSync(file('new-page.json'), JSON.stringify(page));
    await publishUntil(url, ({ status, heading }) => status === 200 && heading === 'Sizes');
    rmSync(file('new-page.json'));
    await publishUntil(url, ({ status }) => status === 404);
  });

  test('a combination of over 255 bytes has a page, and the page is cached', async () => {
    const key = 'a-variant-with-a-name-of-over-sixty-letters-which-is-rather-long';
    const hero = (title: string) => [{ id: title, type: 'Hero', props: { title, text: '' } }];
    const zone = { default: hero('plain'), variants: { [key]: hero('chosen') }, rules: [{ when: { locale: { $regex: '^de' } }, variant: key }] };
    const zones = Object.fromEntries(Array.from({ length: 3 }, (_, i) => [`a-zone-with-a-name-of-over-fifty-letters-and-a-number-${i}`, zone]));
    writeFileSync(file('long.json'), JSON.stringify({ path: '/long', layout: { root: { props: { title: 'Long' } }, zones } }));
    await publishUntil('/long', ({ heading }) => heading === 'plain');
    const german = () => get(site(), '/long', { 'accept-language': 'de' });
    assert.equal((await german()).heading, 'chosen');
    await until(async () => (await german()).headers.get('x-nextjs-cache') === 'HIT');
  });

  test('after a restart the site shows the last publication and renders nothing again', async () => {
    await allRendered();
    let before = 0;
    // The server ends after the renders that the last publication began.
    await site().restart(() => void (before = site().gateway.requests.length));
    const paths = ['/tents', '/about', '/', '/account/membership'];
    for (const pathname of paths) await get(site(), pathname);
    await until(() => site().gateway.requests.slice(before).some((target) => target.includes('/v1/routes')));
    assert.deepEqual((await revalidate()).revalidated, []);
    for (const pathname of paths) assert.equal((await get(site(), pathname)).headers.get('x-nextjs-cache'), 'HIT', pathname);
    assert.equal((await get(site(), '/tents')).heading, 'A roof for the third day');
    assert.deepEqual([...renders(before)], []);
  });

  test('a restart before the changed page was rendered does not lose the change', async () => {
    site().gateway.set('refuse', /v1\/resolve/);
    edit('about.json', 'In many numbers', 'In old numbers');
    site().publish();
    await until(async () => (await revalidate()).unrendered === 1);
    await site().restart(() => site().gateway.set('open'));
    await until(async () => (await get(site(), '/about')).text.includes('In old numbers'));
  });

  test('a publication while the site is down shows after its start', async () => {
    edit('about.json', 'What we got wrong', 'What went wrong');
    await site().restart(() => site().publish());
    await until(async () => (await get(site(), '/about')).text.includes('What went wrong'));
  });

  test('a publication directly before Edge fails keeps the last good page, and the new one shows later', async () => {
    const before = site().gateway.requests.length;
    site().gateway.set('refuse', /v1\/resolve/);
    edit('stoves.json', 'Half a litre, boiling', 'A litre, boiling');
    site().publish();
    await until(async () => {
      const page = await get(site(), '/stoves');
      assert.deepEqual([page.status, page.heading], [200, 'Half a litre, boiling']);
      return renders(before).has('/stoves');
    });
    for (let i = 0; i < 3; i++) assert.equal((await get(site(), '/stoves')).heading, 'Half a litre, boiling');
    site().gateway.set('open');
    await until(async () => (await get(site(), '/stoves')).heading === 'A litre, boiling', 90_000);
  });
}
