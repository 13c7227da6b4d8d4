import assert from 'node:assert/strict';
import { test } from 'node:test';
import { previewLink } from '../../src/index.js';
import { REVIEWER_CHARS_MAX } from '../../src/limits.js';
import { signPreview, verifyPreview } from '../../src/signature.js';
import { type VisitorOptions, visitorFrom } from '../../src/visitor.js';

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const read = (headers: Record<string, string> = {}, options?: VisitorOptions, url = 'http://shop.example/a?b=1') =>
  visitorFrom(new Request(url, { headers }), options);

test('a document request without an ID gets a new one, before the decision', async () => {
  const v = await read();
  assert.match(v.anonId!, UUID);
  assert.deepEqual([v.visitor.anonId, v.isKnown], [v.anonId, false]);
  assert.equal(v.setCookie!.header, `anon_id=${v.anonId}; Path=/; SameSite=Lax; Max-Age=34560000`);
});

test('the first usable cookie of the name wins, and is renewed', async () => {
  const v = await read({ cookie: 'x=1; id=first; id=second' }, { cookie: 'id', cookieDomain: 'shop.example', siteUrl: 'https://shop.example' });
  assert.deepEqual([v.anonId, v.isKnown], ['first', true]);
  assert.equal(v.setCookie!.header, 'id=first; Path=/; SameSite=Lax; Max-Age=34560000; Domain=shop.example; Secure');
});

for (const value of ['%20', 'undefined', 'NULL', '[object%20Object]', '00000000-0000-0000-0000-000000000000', 'x'.repeat(129), '']) {
  test(`the ID "${value.slice(0, 40)}" that Events would refuse counts as absent`, async () => {
    assert.match((await read({ cookie: `anon_id=${value}` })).anonId!, UUID);
  });
}

test('of two cookies of one name the first usable one counts', async () => {
  const placeholder = await read({ cookie: 'anon_id=null; anon_id=undefined; anon_id=real; anon_id=later' });
  assert.deepEqual([placeholder.anonId, placeholder.isKnown], ['real', true]);
  assert.match(placeholder.setCookie!.header, /^anon_id=real;/);
  assert.deepEqual((await read({ cookie: 'px_consent=yes; px_consent=m' })).consent, { personalize: false, measure: true });
  assert.deepEqual((await read({ cookie: 'px_consent=yes' })).consent, { personalize: false, measure: false });
});

test('a document that the browser loads ahead mints no ID, and a known visitor is recognized', async () => {
  for (const headers of [{ 'sec-purpose': 'prefetch;prerender' }, { 'sec-purpose': 'prefetch' }, { purpose: 'prefetch' }] as Record<string, string>[]) {
    const v = await read(headers);
    assert.deepEqual([v.anonId, v.isKnown, v.setCookie], [undefined, false, null]);
    assert.equal((await read({ ...headers, cookie: 'anon_id=known' })).anonId, 'known');
  }
});

test('a request that is no document gets no ID', async () => {
  const v = await read({ 'sec-fetch-dest': 'empty' });
  assert.deepEqual([v.anonId, v.setCookie], [undefined, null]);
});

const CONSENT: [string, boolean, boolean][] = [['1', true, true], ['p', true, false], ['m', false, true], ['0', false, false]];
for (const [text, personalize, measure] of CONSENT) {
  test(`the consent ${text} decides about the ID and the decision`, async () => {
    const v = await read({ cookie: `px_consent=${text}; anon_id=known` });
    assert.deepEqual(v.consent, { personalize, measure });
    assert.equal(v.visitor.personalize, personalize ? undefined : false);
    assert.equal(v.visitor.anonId, personalize ? 'known' : undefined);
    assert.equal(v.anonId, personalize || measure ? 'known' : undefined);
    assert.equal(v.setCookie === null, !personalize && !measure);
  });
}

test('without the cookie, the default decides, and Sec-GPC refuses where the site honors it', async () => {
  const denied = { personalize: false, measure: false };
  assert.deepEqual((await read({}, { consentDefault: 'denied' })).consent, denied);
  assert.deepEqual((await read({ 'sec-gpc': '1', cookie: 'px_consent=1' }, { honorGpc: true })).consent, denied);
  assert.deepEqual((await read({ 'sec-gpc': '1' })).consent, { personalize: true, measure: true });
});

test('the page URL is that of the visitor, also after a reverse proxy', async () => {
  const proxied = await read({ 'x-forwarded-proto': 'https', 'x-forwarded-host': 'shop.example' }, {}, 'http://localhost:3000/a?b=1');
  assert.equal(proxied.visitor.url, 'https://shop.example/a?b=1');
  const configured = await read({}, { siteUrl: 'https://www.shop.example' }, 'http://localhost:3000/a?b=1');
  assert.equal(configured.visitor.url, 'https://www.shop.example/a?b=1');
  const attack = await read({}, { siteUrl: 'https://www.shop.example' }, 'http://localhost:3000//evil.example/a');
  assert.equal(attack.visitor.url, 'https://www.shop.example//evil.example/a');
});

test('the headers that Edge needs are copied, and no others', async () => {
  const headers = { 'accept-language': 'de', 'sec-gpc': '1', 'x-forwarded-for': '192.0.2.7', authorization: 'Basic secret', cookie: 'a=b' };
  const { request } = await read(headers);
  assert.deepEqual(request.init.headers, { 'accept-language': 'de', 'sec-gpc': '1', 'x-forwarded-for': '192.0.2.7' });
});

test('a signed preview cookie is a draft, and mints no ID', async () => {
  const previewSecret = 'a secret of the site';
  const later = Math.floor(Date.now() / 1000) + 60;
  const v = await read({ cookie: `px_preview=${await signPreview(previewSecret, later)}` }, { previewSecret });
  assert.deepEqual([v.isDraft, v.isPreview, v.anonId, v.setCookie], [true, true, undefined, null]);
});

test('a forged, expired or unverifiable preview cookie is an ordinary visitor', async () => {
  const previewSecret = 'a secret of the site';
  const later = Math.floor(Date.now() / 1000) + 60;
  const valid = await signPreview(previewSecret, later);
  const forged = [await signPreview('another secret', later), await signPreview(previewSecret, 1), valid.replace(/^\d+/, '99999999999'), valid.replace('..', '.YW5h.'), '__x', `${valid}x`];
  for (const cookie of forged) assert.equal((await read({ cookie: `px_preview=${cookie}` }, { previewSecret })).isDraft, false);
  assert.equal((await read({ cookie: `px_preview=${valid}` })).isDraft, false);
});

test('a link to a preview names its reviewer and expires', async () => {
  const link = new URL(await previewLink({ secret: 'key', siteUrl: 'https://shop.example/base/', reviewer: 'Zoë', days: 2, to: '/tents?a=1' }));
  assert.deepEqual([link.origin + link.pathname, link.searchParams.get('to')], ['https://shop.example/base/api/parallax/preview', '/tents?a=1']);
  const token = link.searchParams.get('token');
  const { reviewer, expiry } = (await verifyPreview('key', token))!;
  assert.deepEqual([reviewer, Math.round(expiry - Date.now() / 1000 - 2 * 86_400) <= 0], ['Zoë', true]);
  assert.equal(await verifyPreview('another key', token), null);
  assert.equal(await verifyPreview('key', await signPreview('key', Math.floor(Date.now() / 1000), 'Zoë')), null);
  for (const [length, isValid] of [[REVIEWER_CHARS_MAX - 1, true], [REVIEWER_CHARS_MAX, true], [REVIEWER_CHARS_MAX + 1, false]] as const) {
    const signed = signPreview('key', 1, 'x'.repeat(length)).then(() => true, () => false);
    assert.equal(await signed, isValid, String(length));
  }
  await assert.rejects(previewLink({ secret: '', siteUrl: 'https://shop.example', reviewer: 'ana' }), /`secret` is empty/);
});
