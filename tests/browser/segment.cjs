// Segment's browser library, configured with `cdnURL` alone.
'use strict';
const { readFileSync } = require('node:fs');
const path = require('node:path');
const { problem } = require('./bench.cjs');

// Two ways to load the library. The first is Segment's snippet in short: the script reads members of a queue of calls,
// and `_cdn` is `cdnURL` there. The second is the build for pages that call `load` themselves.
const FORMS = {
  snippet: (key, cdnURL, options) => `<script>
    window.analytics = Object.assign([], { _writeKey: '${key}', _cdn: '${cdnURL}', _loadOptions: ${JSON.stringify(options)} });
    for (const method of ['page', 'track', 'identify', 'ready']) {
      analytics[method] = (...values) => analytics.push([method, ...values]);
    }
    </script><script async src="/standalone.js"></script>`,
  load: (key, cdnURL, options) => `<script src="/index.js"></script><script>
    window.analytics = AnalyticsNext.AnalyticsBrowser.load({ writeKey: '${key}', cdnURL: '${cdnURL}' }, ${JSON.stringify(options)});
    </script>`,
};

// The library's own ways to deliver events. Without options it saves an event that is not delivered when the page is
// left, and delivers it on the next page. The others save nothing here, and must deliver it at once.
const DELIVERIES = {
  default: {},
  batching: strategy({ strategy: 'batching' }),
  keepalive: strategy({ config: { keepalive: true } }),
};

function strategy(deliveryStrategy) {
  return { disableClientPersistence: true, integrations: { 'Segment.io': { deliveryStrategy } } };
}

// The library waits up to 5 s before it delivers a saved event.
const SAVED_MS = 8000;

module.exports = async function segment(bench) {
  const library = path.join(bench.places.modules, '@segment/analytics-next/dist/umd');
  for (const file of ['standalone.js', 'index.js']) {
    bench.pageBodies.set(`/${file}`, ['text/javascript', readFileSync(path.join(library, file))]);
  }
  await checkRefusals(bench);
  await bench.each(bench.callers, async (caller) => {
    if (!(await checkSettings(bench, caller))) return;
    await visit(bench, caller, 'snippet');
    if (caller.site === 'open') await visit(bench, caller, 'load');
    await bench.each(Object.keys(DELIVERIES), (delivery) => leave(bench, caller, delivery));
  });
};

async function checkRefusals(bench) {
  const [listed] = bench.callers;
  for (const [caller, key, status, code, init] of [
    [listed, 'track_nobody', 404, 'site_not_found'],
    [listed, 'nobody', 400, 'invalid_tracking_id'],
    [listed, 'track_listed', 405, 'method_not_allowed', { body: '{}' }],
    [bench.stranger, 'track_listed', 403, 'origin_not_allowed'],
  ]) {
    const response = await bench.fetch(caller, `${bench.server.url}/v1/projects/${key}/settings`, init);
    bench.check(`settings, ${status} ${code}: ${caller.name}`, problem(response), [status, code]);
  }
}

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
  const pathname = encodeURI(`/${caller.name}/${form}/${delivery}`.replaceAll(' ', '-'));
  const body = `<!doctype html><title>Tents</title>${FORMS[form](`track_${caller.site}`, bench.server.url, DELIVERIES[delivery])}`;
  bench.pageBodies.set(pathname, ['text/html', body]);
  const page = await bench.open(caller, `${pathname}?utm_source=news`);
  const faults = [];
  page.on('pageerror', (error) => faults.push(error.message));
  await page.evaluate(() => new Promise((ready) => analytics.ready(ready)));
  return { page, pathname, faults };
}

async function visit(bench, caller, form) {
  const { page, pathname, faults } = await openPage(bench, caller, form, 'default');
  const anonId = await page.evaluate(async () => {
    await analytics.page('Tents');
    await analytics.track('Product Viewed', { sku: 't-1' });
    await analytics.identify('user-1', { plan: 'pro' });
    return (await analytics.user()).anonymousId();
  });
  const own = (records) => records.filter((record) => record.anonId === anonId && record.path === pathname);
  await bench.server.recorded((records) => own(records).length >= 3);
  const recorded = own(bench.server.records()).map(({ type, site, name, event, userId, path, payload }) => {
    const { properties = {}, traits = {}, context } = payload;
    return [type, site, name ?? event ?? userId, path, properties.sku ?? traits.plan, context.campaign?.source];
  });
  recorded.sort();
  bench.check(`page, track and identify, ${form}: ${caller.name}`, recorded, [
    ['identify', caller.site, 'user-1', pathname, 'pro', 'news'],
    ['page', caller.site, 'Tents', pathname, undefined, 'news'],
    ['track', caller.site, 'Product Viewed', pathname, 't-1', 'news'],
  ]);
  bench.check(`no error in the page, ${form}: ${caller.name}`, faults, []);
  await page.close();
}

// Tracks an event and leaves the page, as a click on a link does. The library works for a time before it has an event in its
// hands, so a page that is left at once may lose it, with any server. Each delivery is left at its first safe moment: with
// `batching` when the event is in the batch, with `keepalive` when the request is made and not answered, and by default when the
// answer arrives, because the browser cancels such a request with its page.
async function leave(bench, caller, delivery) {
  const { page, pathname } = await openPage(bench, caller, 'snippet', delivery);
  const event = `left a page, ${delivery} delivery: ${caller.name}`;
  const next = caller.origin + (delivery === 'default' ? pathname : '/');
  await page.evaluate(
    ([event, next, delivery]) => {
      const go = () => location.assign(next);
      const { fetch } = window;
      window.fetch = (...call) => {
        const answer = fetch(...call);
        if (delivery === 'keepalive') go();
        if (delivery === 'default') answer.then(go);
        return answer;
      };
      const tracked = analytics.track(event);
      if (delivery === 'batching') tracked.then(go);
    },
    [event, next, delivery],
  );
  await page.waitForURL(next);
  const count = (records) => records.filter((record) => record.event === event).length;
  await bench.server.recorded(count, SAVED_MS);
  bench.check(event, count(bench.server.records()), 1);
  await page.close();
}
