// Compares the decisions for invented visitors of the module with those of a server.
'use strict';
const { Dice } = require('./random.cjs');
const { AGENTS } = require('./requests.cjs');

const PATHS = ['/', '/', '/', '/', '/', '/', '/a', '/none'];
// The clocks of the two programs differ by some milliseconds.
const NOW = '2026-06-15T10:00:00Z';

const EVENTS = [
  { type: 'page', properties: { url: 'https://example.com/a?utm_source=news' } },
  { type: 'page', properties: { path: '/tents' } },
  { event: 'Order', properties: { sku: 'a' } },
  { event: 'Signed Up' },
  { userId: 'u1', traits: { plan: 'pro' } },
  { type: 'profile', increment: { n: 2 }, union: { tags: ['x', 'y'] } },
  { event: 7 },
];

// Returns a question about a visitor. Some are refused.
function questionOf(dice) {
  const events = Array.from({ length: dice.below(5) }, () => {
    const event = dice.one(dice.is(0.95) ? EVENTS.slice(0, -1) : EVENTS);
    return dice.is(0.7) ? { ...event, at: `-${1 + dice.below(40)}d` } : event;
  });
  const visitor = { events };
  const add = (share, name, values) => dice.is(share) && (visitor[name] = dice.one(values));
  add(0.4, 'locale', ['de-DE', 'en-GB', 'nn']);
  add(0.4, 'country', ['DE', 'NO', '??']);
  add(0.4, 'userAgent', AGENTS);
  add(0.3, 'traits', [{ plan: 'pro' }, { n: 7 }]);
  add(0.2, 'anonId', ['v1', 'v2', 'null']);
  const question = { path: dice.one(PATHS), now: NOW, visitor };
  if (dice.is(0.3)) question.url = '/a?utm_source=news&n=7';
  return question;
}

// Returns the answer without the ID of the request.
const comparable = (text) => text.replace(/,"requestId":"[^"]*"/, '');

// Calls `differ` for each question with another answer. Returns what was compared.
async function compareInvented({ author, server, token, sites, count, differ }) {
  const dice = new Dice(11);
  let refused = 0;
  for (let done = 0; done < count; done += 1) {
    const [id, files] = dice.one(sites);
    const question = JSON.stringify(questionOf(dice));
    const strings = [...files].flat().map((text) => Buffer.from(text));
    const { isOk, bytes } = author.call('explain', [Buffer.from(question), ...strings]);
    const init = { method: 'POST', body: question, headers: { authorization: `Bearer ${token}` } };
    const response = await fetch(`${server.adminUrl}/explain?site=${id}`, init);
    const text = await response.text();
    const expected = response.ok ? text : JSON.parse(text).detail;
    refused += response.ok ? 0 : 1;
    if (isOk !== response.ok || comparable(bytes.toString('utf8')) !== comparable(expected)) {
      differ(`${id}: ${question}\nthe server answers\n${expected}\nand the module\n${bytes}`);
    }
  }
  return `${count} questions about invented visitors compared, ${refused} of them refused`;
}

module.exports = { compareInvented };
