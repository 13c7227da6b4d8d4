// An arm of an experiment that sends its visitors elsewhere: no exposure is lost.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Browser } from 'playwright-core';
import { USER_AGENT, launchChromium } from '../chromium.js';
import { type TestServer, startServer } from '../server.js';
import { type Pages, bundleApp, servePages } from './pages.js';

const VISITORS = process.env.PARALLAX_LONG ? 300 : 20;
/** The page leaves between 0 and this time after its load. */
const LEAVE_MS = 300;

describe('a redirecting arm', () => {
  let edge: TestServer;
  let pages: Pages;
  let browser: Browser;
  before(async () => {
    edge = await startServer();
    const app = await bundleApp();
    pages = await servePages(({ pathname, searchParams, port }) => {
      if (pathname === '/landing') return '<title>Landing</title>';
      if (pathname === '/app.js') return app;
      const [visitor, delay, host] = ['visitor', 'delay', 'host'].map((name) => searchParams.get(name));
      const target = `http://${host}:${port}/landing`;
      const id = `<title>Arm</title><body><script>document.cookie = 'anon_id=${visitor}; Path=/';</script>`;
      if (pathname === '/react') return `${id}<script src="/app.js"></script><script>renderRedirectingArm('${edge.url}', '${target}', ${delay})</script>`;
      return `${id}<script>
          (window.Parallax ??= { queue: [] }).queue.push((events) => {
            events.shown({ variants: 'hero:away', experiments: 'redirect:away' });
            events.page();
          });
          addEventListener('load', () => {
            const leave = () => location.replace('${target}');
            ${delay} ? setTimeout(leave, ${delay}) : leave();
          });
        </script>
        <script async src="/parallax.js" data-tracking-id="track_demo" data-events-url="${edge.url}" data-views="manual"></script>`;
    });
    browser = await launchChromium();
  });
  after(async () => {
    await browser?.close();
    pages?.stop();
    await edge?.stop();
  });

  const ways = ['/plain', '/react'].flatMap((page) => ['www.example.test', 'shop.example.test'].map((host) => [page, host] as const));
  for (const [pathname, host] of ways) {
    test(`${VISITORS} visitors of ${pathname} on www.example.test that goes to ${host} are all counted once`, async () => {
      const context = await browser.newContext({ userAgent: USER_AGENT });
      const page = await context.newPage();
      for (let i = 0; i < VISITORS; i++) {
        const delay = Math.round((LEAVE_MS * i) / VISITORS);
        await page.goto(`http://www.example.test:${pages.port}${pathname}?visitor=${host}${pathname}-${i}&delay=${delay}&host=${host}`);
        await page.waitForURL(`http://${host}:${pages.port}/landing`);
        await context.clearCookies();
        await page.evaluate('localStorage.clear()'); // the next page of this profile is that of another visitor
      }
      await context.close();
      const exposed = (all: Awaited<ReturnType<TestServer['recorded']>>) => all.filter((record) => record.anonId?.startsWith(`${host}${pathname}-`) && record.experiments === 'redirect:away');
      const all = exposed(await edge.recorded((records) => exposed(records).length >= VISITORS));
      assert.deepEqual([all.length, new Set(all.map(({ anonId }) => anonId)).size], [VISITORS, VISITORS]);
    });
  }
});
