// Cookies of one name in several scopes, in Chromium: host, parent domains and paths.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { USER_AGENT, launchChromium } from '../chromium.js';
import { type Pages, servePages } from './pages.js';

describe('cookies of several scopes', () => {
  let pages: Pages;
  let browser: Browser;
  let context: BrowserContext;
  before(async () => {
    pages = await servePages(() => '<title>Shop</title><script src="/parallax.js"></script>');
    browser = await launchChromium();
  });
  after(async () => {
    await browser?.close();
    pages?.stop();
  });

  async function open(pathname = '/shop/tents'): Promise<Page> {
    context = await browser.newContext({ userAgent: USER_AGENT });
    const page = await context.newPage();
    await page.goto(`http://www.example.test:${pages.port}${pathname}`);
    return page;
  }
  const events = (options: string) => `Parallax.createEvents({ eventsUrl: 'http://127.0.0.1:9', trackingId: 'track_demo', ${options} })`;
  const named = async (name: string) => (await context.cookies()).filter((cookie) => cookie.name === name).map(({ domain, value }) => [domain, value]);

  for (const [server, client] of [['', "cookieDomain: 'example.test'"], ['; Domain=example.test', '']] as const) {
    test(`after reset no old ID returns: set with "${server}", browser with "${client}"`, async () => {
      const page = await open();
      await page.evaluate(`document.cookie = 'anon_id=old-visitor; Path=/; Max-Age=999${server}'`);
      const ids: any = await page.evaluate(`(() => {
        const events = ${events(client)};
        const before = events.anonId();
        events.reset();
        return [before, events.anonId(), ${events('')}.anonId(), ${events("cookieDomain: 'example.test'")}.anonId()];
      })()`);
      assert.equal(ids[0], 'old-visitor');
      assert.equal(new Set(ids.slice(1)).size, 1);
      assert.notEqual(ids[1], 'old-visitor');
      assert.deepEqual((await named('anon_id')).map(([, value]) => value), [ids[1]]);
      await context.close();
    });
  }

  test('of two cookies the first usable one is the ID, and a placeholder of another scope is skipped', async () => {
    const page = await open();
    const id = await page.evaluate(`document.cookie = 'anon_id=null; Path=/shop', document.cookie = 'anon_id=usable; Path=/; Domain=example.test', ${events('')}.anonId()`);
    assert.equal(id, 'usable');
    await context.close();
  });

  test('a refusal replaces an older consent of another scope', async () => {
    const page = await open();
    const id = await page.evaluate(`(() => {
      document.cookie = 'px_consent=1; Path=/shop';
      document.cookie = 'px_consent=1; Path=/; Domain=example.test';
      const events = ${events('')};
      events.anonId();
      events.consent({ personalize: false, measure: false });
      return events.anonId();
    })()`);
    assert.equal(id, null);
    assert.deepEqual([await named('px_consent'), await named('anon_id')], [[['www.example.test', '0']], []]);
    await context.close();
  });

  test('reset deletes the experiments of the page in the scope of its path', async () => {
    const page = await open();
    await page.evaluate(`document.cookie = 'px_experiments=12345678.a%3Ab; Path=/shop/tents', ${events('')}.reset()`);
    assert.deepEqual(await named('px_experiments'), []);
    await context.close();
  });
});
