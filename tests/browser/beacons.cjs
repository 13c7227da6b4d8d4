// Beacons: a page sends them when it is left, and reads no response.
'use strict';

const ways = {
  'sendBeacon when the page is left': ([url, body]) => addEventListener('pagehide', () => navigator.sendBeacon(url, body)),
  'fetch with keepalive when the page is left': ([url, body]) =>
    addEventListener('pagehide', () => fetch(url, { method: 'POST', body, keepalive: true, credentials: 'include' })),
  'sendBeacon of application/json': ([url, body]) => navigator.sendBeacon(url, new Blob([body], { type: 'application/json' })),
};

module.exports = async function beacons(bench) {
  const { server, callers, stranger } = bench;
  for (const caller of [...callers, stranger]) {
    const page = await bench.open(caller);
    for (const [way, send] of Object.entries(ways)) {
      const messageId = `${way}: ${caller.name}`;
      const body = JSON.stringify({ anonId: 'v1', event: 'Left', messageId });
      await page.evaluate(send, [`${server.url}/v1/track?trackingId=track_${caller.site}`, body]);
      if (way.endsWith('is left')) await page.goto('about:blank');
      if (caller !== stranger) {
        const record = await server.recorded((records) => records.find((record) => record.messageId === messageId));
        bench.check(messageId, record?.event, 'Left');
      }
      await page.goto(caller.origin);
    }
    await page.context().close();
  }
  await closedTab(bench);
  const refused = server.records().filter(({ messageId }) => messageId.endsWith(stranger.name));
  bench.check(`no beacon is recorded: ${stranger.name}`, refused, []);
};

async function closedTab(bench) {
  for (const caller of bench.callers) {
    const page = await bench.open(caller);
    const messageId = `sendBeacon when the tab is closed: ${caller.name}`;
    const body = JSON.stringify({ anonId: 'v1', event: 'Closed', messageId });
    const send = ([url, body]) => addEventListener('pagehide', () => navigator.sendBeacon(url, body));
    await page.evaluate(send, [`${bench.server.url}/v1/track?trackingId=track_${caller.site}`, body]);
    await page.close({ runBeforeUnload: true });
    const record = await bench.server.recorded((records) => records.find((record) => record.messageId === messageId));
    bench.check(messageId, record?.event, 'Closed');
    await page.context().close();
  }
}
