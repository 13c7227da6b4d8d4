// Random requests to the event endpoints, also wrong ones, of visitors that share IDs.
'use strict';
const { AGENTS } = require('./requests.cjs');

const DAY_MS = 24 * 60 * 60 * 1000;
const PAGES = ['/', '/', '/a', '/a/b', '/größe', '/p/x', '/docs/a/b', '/x/1/y', '/tents', `/${'long/'.repeat(60)}`];
const NAMES = ['Order', 'Order', 'Product Viewed', 'Signed Up', 'Größe', 'x'.repeat(150)];
const TRAITS = ['plan', 'n', 'größe', 'tags'];
const VALUES = ['pro', 'free', 7, 1.5, -3, 1e300, true, null, 'é'.repeat(40), ['x', 'y'], ['x', 3, null], { a: 1 }];
const REFERRERS = ['https://www.google.com/', 'https://news.example.org/x', 'https://example.com/own', 'no url', ''];
const QUERIES = ['', '?utm_source=news&utm_medium=mail', '?utm_source=NEWS&n=7', '?gclid=1', '?utm_campaign=%C3%A9'];

// The IDs of a site. Several visitors share a device, and several devices share a user.
const anonId = (dice) => `v${dice.below(12)}`;
const userId = (dice) => `u${dice.below(5)}`;

// Returns a time in whole minutes before now, so that two programs with clocks some milliseconds apart see the same visits.
const timeOf = (dice) => new Date(Math.floor((Date.now() - dice.random() ** 3 * 60 * DAY_MS) / 60_000) * 60_000).toISOString();

const traitsOf = (dice) => Object.fromEntries(dice.some(TRAITS, 0.5).map((name) => [name, dice.one(VALUES)]));

function contextOf(dice) {
  const context = {};
  const add = (share, name, value) => dice.is(share) && (context[name] = value());
  add(0.5, 'page', () => ({ path: dice.one(PAGES), url: `https://example.com${dice.one(PAGES)}${dice.one(QUERIES)}`, referrer: dice.one(REFERRERS) }));
  add(0.3, 'userAgent', () => dice.one(AGENTS));
  add(0.3, 'locale', () => dice.one(['de-AT', 'en', '??', 7]));
  add(0.2, 'campaign', () => ({ source: dice.one(['news', 'shop']), name: 'spring' }));
  add(0.05, 'consent', () => dice.one([{ measure: false }, { measure: true }, { measure: 'no' }]));
  add(0.05, 'device', () => ({ type: dice.one(['ios', 'android', 'x']), name: 'Phone' }));
  add(0.03, 'traits', () => traitsOf(dice));
  return context;
}

const OPERATIONS = [
  (dice) => ({ set: traitsOf(dice) }),
  (dice) => ({ setOnce: traitsOf(dice) }),
  (dice) => ({ unset: dice.some(TRAITS, 0.3) }),
  (dice) => ({ increment: { n: dice.below(9) - 4 } }),
  (dice) => ({ append: { tags: dice.one(VALUES) } }),
  (dice) => ({ union: { tags: dice.some(['x', 'y', 'z'], 0.5) } }),
  (dice) => ({ remove: { tags: ['x'] } }),
];

// The members of an event of each type.
const KINDS = {
  page: (dice) => ({ properties: { path: dice.one(PAGES), url: `https://example.com/${dice.one(QUERIES)}`, referrer: dice.one(REFERRERS), title: 'T' } }),
  track: (dice) => ({ event: dice.one(NAMES), properties: { sku: dice.one(['a', 7]) } }),
  screen: (dice) => ({ name: dice.one(NAMES) }),
  identify: (dice) => ({ userId: userId(dice), traits: traitsOf(dice) }),
  alias: (dice) => ({ userId: userId(dice), previousId: dice.is(0.7) ? anonId(dice) : userId(dice) }),
  group: () => ({ groupId: 'g1' }),
  profile: (dice) => Object.assign({}, ...Array.from({ length: 1 + dice.below(2) }, () => dice.one(OPERATIONS)(dice))),
};
const SHARES = ['page', 'page', 'page', 'track', 'track', 'track', 'identify', 'identify', 'profile', 'profile', 'alias', 'screen', 'group'];

// Makes an event wrong.
const SPOILERS = [
  (event, dice) => ({ ...event, anonId: dice.one(['', 'a b', 'x'.repeat(200), 'null', 7]) }),
  (event) => ({ ...event, anonId: undefined, userId: undefined }),
  (event) => ({ ...event, timestamp: 'yesterday' }),
  (event) => ({ ...event, type: 'unknown' }),
  (event) => ({ ...event, properties: [1] }),
  (event) => ({ ...event, set: 7 }),
  (event) => ({ ...event, userId: 'u'.repeat(300) }),
];

// Returns an event. `experiments` are texts of earlier decisions, and `messageIds` those of earlier events.
function eventOf(dice, type, { experiments, messageIds }) {
  const event = { type, timestamp: timeOf(dice), context: contextOf(dice), ...KINDS[type](dice) };
  if (type !== 'alias' && dice.is(0.93)) event.anonId = anonId(dice);
  else if (type !== 'alias') event.userId ??= userId(dice);
  if (['page', 'track'].includes(type) && dice.is(0.15)) event.userId = userId(dice);
  if (dice.is(0.3) && experiments.length > 0) event.experiments = dice.one(experiments);
  event.messageId = dice.is(0.05) && messageIds.length > 0 ? dice.one(messageIds) : `m${dice.below(2 ** 32)}`;
  messageIds.push(event.messageId);
  return dice.is(0.05) ? dice.one(SPOILERS)(event, dice) : event;
}

function bodyOf(dice, site, seen) {
  const type = dice.one(SHARES);
  const trackingId = dice.is(0.98) ? `track_${site}` : dice.one(['track_none', 'x', undefined]);
  if (dice.is(0.15)) {
    const batch = Array.from({ length: 1 + dice.below(6) }, () => eventOf(dice, dice.one(SHARES), seen));
    return { path: dice.one(['/v1/batch', '/v1/import', '/v1/page']), body: { trackingId, batch, context: contextOf(dice) } };
  }
  const path = dice.is(0.97) ? { page: '/v1/page', profile: '/v1/track' }[type] ?? dice.one(['/v1/track', `/v1/${type}`]) : '/v1/p';
  return { path, body: { trackingId, ...eventOf(dice, type, seen) } };
}

// Returns a request to an event endpoint, and the IDs that it names. `seen` has texts of earlier requests and responses.
function eventRequestOf(dice, site, seen) {
  const { path, body } = bodyOf(dice, site, seen);
  const text = dice.is(0.98) ? JSON.stringify(body) : dice.one(['', '{', '[]', '{"batch":7}', '{"trackingId":"\\ud800"}']);
  const lines = ['Host: www.example.com', `Content-Length: ${Buffer.byteLength(text)}`];
  const add = (share, name, values) => dice.is(share) && lines.push(`${name}: ${dice.one(values)}`);
  add(0.9, 'Content-Type', ['application/json', 'text/plain']);
  add(0.6, 'User-Agent', AGENTS);
  add(0.2, 'Origin', ['https://www.example.com', 'https://a.example.org', 'null']);
  add(0.02, 'Sec-GPC', ['1']);
  add(0.1, 'Prefer', ['return=minimal']);
  add(0.2, 'Accept-Language', ['de-DE,de;q=0.9', 'en', 'zz;q=']);
  const target = path + dice.one(['', '', '', '', `?anonId=${anonId(dice)}`, '?dryRun=1', '?dryRun=x']);
  return Buffer.from(`POST ${target} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n${text}`);
}

// Returns the decisions about a visitor whose explanation shows all facts.
function decisionOf(dice, site, [kind, id]) {
  const path = encodeURIComponent(dice.one(['/', '/', '/', '/a']));
  return Buffer.from(`GET /v1/variants?trackingId=track_${site}&route=${path}&${kind}Id=${id}&explain=1 HTTP/1.1\r\nHost: www.example.com\r\n\r\n`);
}

// All IDs of a site, by kind.
const IDS = [...Array.from({ length: 12 }, (_, n) => ['anon', `v${n}`]), ...Array.from({ length: 5 }, (_, n) => ['user', `u${n}`])];

module.exports = { IDS, decisionOf, eventRequestOf };
