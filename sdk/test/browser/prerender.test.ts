// Pages that Chromium renders ahead. DevTools, and so Playwright, turn this off: the browser runs without them, and the pages steer it.
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { CHROMIUM, NAMES, USER_AGENT } from '../chromium.js';
import { type TestServer, startServer } from '../server.js';
import { type Pages, servePages } from './pages.js';

/** Attempts to remove the profile of a browser, and the pause between two. The helper processes of the browser end within a second. */
const REMOVALS_MAX = 100, REMOVAL_PAUSE_MS = 50;

/** Renders three pages ahead, and goes to the first when all have been rendered. */
const START = (targets: string[]) => `<title>Start</title>
  <script type="speculationrules">${JSON.stringify({ prerender: [{ urls: targets, eagerness: 'immediate' }] })}</script>
  <script>
    setInterval(async () => (await (await fetch('/count')).text()).endsWith(' ${targets.length}') && location.assign('${targets[0]}'), 50);
  </script>`;
const RENDERED = `<script>addEventListener('load', () => document.prerendering && fetch('/rendered'))</script>`;

describe('prerendered pages', () => {
  let edge: TestServer;
  let pages: Pages;
  before(async () => {
    edge = await startServer();
    const tag = `<script async src="/parallax.js" data-tracking-id="track_demo" data-events-url="${edge.url}"></script>`;
    const script = `<script src="/parallax.js"></script><script>
        const events = Parallax.createEvents({ eventsUrl: '${edge.url}', trackingId: 'track_demo' });
        const wasHidden = document.prerendering, id = events.anonId();
        events.page({ wasHidden, id });
        events.track('Rendered');
      </script>`;
    const bodies: Record<string, string> = {
      '/to-tag': START(['/tag', '/unseen-tag', '/unseen-script']),
      '/to-script': START(['/script', '/unseen-tag', '/unseen-script']),
    };
    const body = (pathname: string) => bodies[pathname] ?? RENDERED + (pathname.endsWith('tag') ? tag : script);
    let rendered = 0;
    pages = await servePages(({ pathname }) => {
      if (pathname.startsWith('/to-')) rendered = 0;
      if (pathname === '/rendered') rendered++;
      return pathname === '/count' ? ` ${rendered}` : body(pathname);
    });
  });
  after(async () => {
    pages?.stop();
    await edge?.stop();
  });

  /** Removes the profile of a browser. Its helper processes end after it, and write there until then. `maxRetries` of rmSync does not find new files. */
  async function removeProfile(profile: string) {
    for (let attempt = 1; ; attempt++) {
      try {
        return rmSync(profile, { recursive: true, force: true });
      } catch (error) {
        if (attempt === REMOVALS_MAX) throw error;
        await setTimeout(REMOVAL_PAUSE_MS);
      }
    }
  }

  /** Opens a page in a browser without DevTools until the records are complete. */
  async function browse(pathname: string, isComplete: Parameters<TestServer['recorded']>[0]) {
    const profile = mkdtempSync(path.join(tmpdir(), 'parallax-prerender-'));
    const flags = ['--headless', '--no-sandbox', '--disable-gpu', '--remote-debugging-port=0', `--user-data-dir=${profile}`, `--user-agent=${USER_AGENT}`, NAMES];
    const child: ChildProcess = spawn(CHROMIUM, [...flags, `http://www.example.test:${pages.port}${pathname}`], { stdio: 'ignore' });
    const exited = new Promise((resolve) => child.once('exit', resolve));
    try {
      return await edge.recorded(isComplete);
    } finally {
      child.kill('SIGTERM');
      await exited;
      await removeProfile(profile);
    }
  }

  test('a tag counts a page when the visitor sees it', async () => {
    const all = await browse('/to-tag', (records) => records.some((record) => record.path === '/tag'));
    assert.deepEqual(all.map(({ type, path: viewed }) => [type, viewed]), [['page', '/tag']]);
  });

  test('createEvents records a page and its events when the visitor sees it, and mints the ID then', async () => {
    const isOf = (viewed: string | null) => viewed === '/script';
    const all = await browse('/to-script', (records) => records.filter((record) => isOf(record.path)).length === 2);
    const own = all.filter((record) => isOf(record.path));
    assert.deepEqual(own.map(({ type }) => type), ['page', 'track']);
    const { wasHidden, id } = own[0]!.payload.properties;
    assert.deepEqual([wasHidden, id, typeof own[0]!.anonId], [true, null, 'string']);
  });

  test('a page that no visitor saw is not recorded', () => {
    assert.ok(pages.requests.includes('/unseen-tag') && pages.requests.includes('/unseen-script'));
    assert.deepEqual(edge.records().filter((record) => record.path?.startsWith('/unseen')), []);
  });
});
