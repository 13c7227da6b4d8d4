import assert from 'node:assert/strict';
import { test } from 'node:test';
import { VISITOR_TOKEN_CHARS_MAX } from '../../src/limits.js';
import { visitorCookie } from '../../src/past.js';
import { type VisitorOptions, visitorFrom } from '../../src/visitor.js';

const read = (cookie: string, headers: Record<string, string> = {}, options: VisitorOptions = {}, href = 'https://shop.example/') =>
  visitorFrom(new Request(href, { headers: { cookie, 'sec-fetch-dest': 'document', ...headers } }), options);
const KEPT = 'Path=/; SameSite=Lax; Max-Age=86400';
const DELETED = 'px_visitor=; Path=/; SameSite=Lax; Max-Age=0; Secure';

test('the past of a visitor is that of the cookies', async () => {
  const past = async (cookie: string) => (await read(cookie)).request.past;
  assert.deepEqual(await past(''), { isNew: true, token: null, isStale: false });
  assert.deepEqual(await past('anon_id=v1'), { isNew: false, token: null, isStale: false });
  assert.deepEqual(await past('anon_id=v1; px_visitor=k1.a_b-c'), { isNew: false, token: 'k1.a_b-c', isStale: false });
  assert.deepEqual(await past('anon_id=v1; px_visitor=~k1.abc'), { isNew: false, token: 'k1.abc', isStale: true });
  assert.deepEqual(await past('anon_id=null; px_visitor=k1.abc'), { isNew: true, token: 'k1.abc', isStale: false });
  for (const value of ['', '~', 'a b', '~~x', '%7E%7Ex', 'ä']) assert.equal((await past(`anon_id=v1; px_visitor=${value}`)).token, null, value);
  // Without consent to measure, no event is on its way.
  assert.equal((await past('anon_id=v1; px_visitor=~k1.abc; px_consent=p')).isStale, false);
});

test('a token of the greatest length is read and kept, and a longer one is not', async () => {
  for (const [length, isUsable] of [[VISITOR_TOKEN_CHARS_MAX - 1, true], [VISITOR_TOKEN_CHARS_MAX, true], [VISITOR_TOKEN_CHARS_MAX + 1, false]] as const) {
    const token = 'x'.repeat(length);
    assert.equal((await read(`anon_id=v1; px_visitor=~${token}`)).request.past.token !== null, isUsable, String(length));
    assert.equal(visitorCookie(await read('anon_id=v1'), token) !== null, isUsable, String(length));
  }
});

test('a token of Edge is kept, with the mark of the request, and null deletes the cookie', async () => {
  assert.equal(visitorCookie(await read('anon_id=v1'), 'new'), `px_visitor=new; ${KEPT}; Secure`);
  assert.equal(visitorCookie(await read('anon_id=v1; px_visitor=~old'), 'new'), `px_visitor=~new; ${KEPT}; Secure`);
  assert.equal(visitorCookie(await read('anon_id=v1', {}, {}, 'http://shop.example/'), 'new', 'shop.example'), `px_visitor=new; ${KEPT}; Domain=shop.example`);
  assert.equal(visitorCookie(await read('anon_id=v1; px_visitor=old'), null), DELETED);
  assert.equal(visitorCookie(await read('anon_id=v1'), null), null);
  assert.equal(visitorCookie(await read('anon_id=v1; px_visitor=old'), undefined), null);
});

test('a prefetch, a soft navigation and a preview keep no token, because events of the page may be on their way', async () => {
  const requests = [read('anon_id=v1', { 'sec-fetch-dest': 'empty' }), read('anon_id=v1', { 'sec-purpose': 'prefetch' }), read('anon_id=v1', {}, {}, 'https://shop.example/?px-preview')];
  for (const request of requests) assert.equal(visitorCookie(await request, 'new'), null);
  assert.equal(visitorCookie(await read('anon_id=v1; px_visitor=old', { 'sec-fetch-dest': 'empty' }), null), null);
});

test('a visitor who refuses personalized pages has no token', async () => {
  for (const consent of ['0', 'm']) assert.equal(visitorCookie(await read(`anon_id=v1; px_visitor=old; px_consent=${consent}`), 'new'), DELETED);
  assert.equal(visitorCookie(await read('anon_id=v1; px_consent=m'), 'new'), null);
});
