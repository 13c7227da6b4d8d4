// Beacons: a page sends them when it is left, and reads no response.
'use strict';

const beaconOnLeave = ([url, body]) => addEventListener('pagehide', () => navigator.sendBeacon(url, body));
const fetchOnLeave = ([url, body]) =>
  addEventListener('pagehide', () => fetch(url, { method: 'POST', body, keepalive: true, credentials: 'include' }));
const jsonBeacon = ([url, body]) => navigator.sendBeacon(url, new Blob([body], { type: 'application/json' }));
const goAway = (page) => page.goto('about:blank');
const closeTab = (page) => page.close({ runBeforeUnload: true });
const stay = () => {};

const WAYS = [
  ['sendBeacon when the page is left', beaconOnLeave, goAway],
  ['sendBeacon when the tab is closed', beaconOnLeave, closeTab],
  ['fetch with keepalive when the page is left', fetchOnLeave, goAway],
  ['sendBeacon of application/json', jsonBeacon, stay],
];

module.exports = async function beacons(bench) {
  const { server, callers, stranger } = bench;
  await bench.each(callers, async (caller) => {
    await bench.each(WAYS, async (way) => {
      const name = await send(bench, caller, way);
      const record = await server.recorded((records) => records.find(({ messageId }) => messageId === name));
      bench.check(name, record?.event, 'Left');
    });
  });
  // The list of origins decides about the stranger's beacons, so one of the list, sent later, shows that they arrived.
  for (const way of WAYS) await send(bench, stranger, way);
  const last = await send(bench, callers[0], ['a last beacon', ...WAYS[0].slice(1)]);
  const records = await server.recorded((all) => all.some(({ messageId }) => messageId === last) && all);
  const refused = (records ?? []).filter(({ messageId }) => messageId.endsWith(stranger.name));
  bench.check(`no beacon is recorded: ${stranger.name}`, refused, []);
};

// Sends an event whose message ID is the name of the check. Returns the name.
async function send(bench, caller, [way, prepare, leave]) {
  const name = `${way}: ${caller.name}`;
  const page = await bench.open(caller);
  const url = `${bench.server.url}/v1/track?trackingId=track_${caller.site}`;
  await page.evaluate(prepare, [url, JSON.stringify({ anonId: 'v1', event: 'Left', messageId: name })]);
  await leave(page);
  return name;
}
