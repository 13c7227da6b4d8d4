// Segment's browser library, configured with `cdnURL` alone.
'use strict';
const { readFileSync } = require('node:fs');
const path = require('node:path');

// Two ways to load the library. The first is Segment's snippet in short: the script reads its settings from a queue of
// calls. The second is the build for pages that call `load` themselves.
const FORMS = {
  snippet: (key, options) => `<script>
    window.analytics = Object.assign([], { _writeKey: '${key}', _loadOptions: ${JSON.stringify(options)} });
    for (const method of ['page', 'track', 'identify', 'ready']) {
      analytics[method] = (...values) => analytics.push([method, ...values]);
    }
    </script><script async src="/standalone.js"></script>`,
  load: (key, options) => `<script src="/index.js"></script><script>
    const options = ${JSON.stringify(options)};
    window.analytics = AnalyticsNext.AnalyticsBrowser.load({ writeKey: '${key}', cdnURL: options.cdnURL }, options);
    </script>`,
};

// The library's own ways to deliver events.
const DELIVERIES = {
  'one by one': {},
  'in batches': { deliveryStrategy: { strategy: 'batching' } },
  'with keepalive': { deliveryStrategy: { config: { keepalive: true } } },
};

module.exports = async function segment(bench) {
  const library = path.join(bench.places.modules, '@segment/analytics-next/dist/umd');
  for (const file of ['standalone.js', 'index.js']) {
    bench.pageBodies.set(`/${file}`, ['text/javascript', readFileSync(path.join(library, file))]);
  }
  const check = async (caller) => {
    if (!(await checkSettings(bench, caller))) return;
    for (const form of Object.keys(FORMS)) {
      await visit(bench, caller, form);
      for (const delivery of Object.keys(DELIVERIES)) await leave(bench, caller, form, delivery);
    }
  };
  await Promise.all(bench.callers.map(check));
};

// Checks the settings that the library loads first. Without them it waits forever.
async function checkSettings(bench, caller) {
  const faults = bench.faults;
  for (const file of ['settings', 'settings.json']) {
    const url = `${bench.server.url}/v1/projects/track_${caller.site}/${file}`;
    const response = await bench.fetch(caller, url);
    const wanted = { apiKey: `track_${caller.site}`, apiHost: `${new URL(url).host}/v1`, protocol: 'http' };
    bench.check(`${file}: ${caller.name}`, response.body?.integrations?.['Segment.io'] ?? response, wanted);
  }
  return bench.faults === faults;
}

// Opens a page that loads the library.
async function openPage(bench, caller, form, delivery) {
  const options = { cdnURL: bench.server.url, integrations: { 'Segment.io': DELIVERIES[delivery] } };
  const pathname = encodeURI(`/${caller.name}/${form}/${delivery}`.replaceAll(' ', '-'));
  const body = `<!doctype html><title>Tents</title>${FORMS[form](`track_${caller.site}`, options)}`;
  bench.pageBodies.set(pathname, ['text/html', body]);
  const page = await bench.open(caller, `${pathname}?utm_source=news`);
  const faults = [];
  page.on('pageerror', (error) => faults.push(error.message));
  await page.evaluate(() => new Promise((ready) => analytics.ready(ready)));
  return { page, pathname, faults };
}

async function visit(bench, caller, form) {
  const { page, pathname, faults } = await openPage(bench, caller, form, 'one by one');
  const anonId = await page.evaluate(async () => {
    await analytics.page('Tents');
    await analytics.track('Product Viewed', { sku: 't-1' });
    await analytics.identify('user-1', { plan: 'pro' });
    return (await analytics.user()).anonymousId();
  });
  const own = (records) => records.filter((record) => record.anonId === anonId);
  await bench.server.recorded((records) => own(records).length >= 3);
  const recorded = own(bench.server.records()).map(({ type, site, name, event, userId, path, source, payload }) => {
    const { properties = {}, traits = {}, context } = payload;
    return [type, site, name ?? event ?? userId, path, source, properties.sku ?? traits.plan, context.library.name];
  });
  recorded.sort();
  bench.check(`page, track and identify, ${form}: ${caller.name}`, recorded, [
    ['identify', caller.site, 'user-1', pathname, null, 'pro', 'analytics.js'],
    ['page', caller.site, 'Tents', pathname, 'news', undefined, 'analytics.js'],
    ['track', caller.site, 'Product Viewed', pathname, null, 't-1', 'analytics.js'],
  ]);
  bench.check(`no error in the page, ${form}: ${caller.name}`, faults, []);
  await page.context().close();
}

async function leave(bench, caller, form, delivery) {
  const { page } = await openPage(bench, caller, form, delivery);
  const event = `left a page that delivers ${delivery}, ${form}: ${caller.name}`;
  await page.evaluate((event) => {
    addEventListener('pagehide', () => analytics.track(event));
  }, event);
  await page.goto(`${caller.origin}/`);
  const isRecorded = await bench.server.recorded((records) => records.some((record) => record.event === event), 3000);
  bench.check(event, isRecorded, true);
  await page.context().close();
}
