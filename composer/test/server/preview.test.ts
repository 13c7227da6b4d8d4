// Links to previews: what opens them, and what they open.
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import { StorageError } from '../../src/server/errors.js';
import { type HandlerOptions, type Role, composerHandler } from '../../src/server/handler.js';
import { fileStorage } from '../../src/server/files.js';
import { PREVIEWS_KEPT_MAX, PREVIEW_DAYS_MAX, PREVIEW_KEPT_CHARS_MAX, PREVIEW_KEPT_MS, PREVIEW_SECRET_CHARS_MIN, PREVIEW_TOKEN_CHARS_MAX, REVISION_CHARS_MAX } from '../../src/server/limits.js';
import { signPreview } from '../../src/server/preview.js';
import type { Storage } from '../../src/server/storage.js';
import { AUTHOR, SMALL, change, etagOf, page, saveOf, smallSite } from './site.js';

const ORIGIN = 'https://www.example.com';
const SECRET = 'a secret of the previews, for tests';
const NOW = Date.parse('2026-01-05T10:20:30.456Z');
const DAY_MS = 86_400_000;
const PAGE = 'routes/a.json';
const AUDIENCES = '{"$schema":"x","member":{"name":"Members","when":{}},"unnamed":{"when":{}},"odd":3}';
const FILES: Record<string, string> = { ...SMALL, 'audiences.json': AUDIENCES, 'routes/secret.json': page('/secret', 'Secret'), 'content/secret.json': '{"secret":1}' };

/** A handler whose session is that of a person with these roles, or nobody's. */
function composer(storage: Storage, more: Partial<HandlerOptions> & { roles?: Role[] | null } = {}) {
  const { roles = ['view', 'edit', 'publish', 'visitors'], ...options } = more;
  const time = { now: NOW };
  const handle = composerHandler({ storage, authorize: async () => roles && { user: AUTHOR, roles }, previewSecret: SECRET, now: () => time.now, onError: () => {}, ...options });
  async function send(method: string, name: string, headers: Record<string, string>, body?: object) {
    const type: Record<string, string> = body ? { origin: ORIGIN, 'content-type': 'application/json' } : {};
    const response = await handle(new Request(`${ORIGIN}/api/composer/${name}`, { method, body: body && JSON.stringify(body), headers: { ...type, ...headers } }));
    const text = await response.text();
    return { status: response.status, headers: response.headers, text, body: (text && JSON.parse(text)) as any };
  }
  return {
    time,
    link: (body: object) => send('POST', 'preview', {}, body),
    see: (token: string | null, query = '') => send('GET', `preview${query}`, token === null ? {} : { 'x-preview': token }),
    send,
  };
}

const tokenOf = ({ body }: { body: any }): string => /^#preview=(\S+)$/.exec(body.url)![1]!;
const stored = () => fileStorage({ directory: smallSite(FILES) });
const present = async (storage: Storage) => (await storage.list()).revision;

/** Signs any claims for any purpose. */
function forged(claims: unknown, { secret = SECRET, purpose = 'px-composer-preview', expiry = Math.floor(NOW / 1000) + 60 } = {}): string {
  const signed = `${expiry}.${Buffer.from(JSON.stringify(claims)).toString('base64url')}`;
  return `${signed}.${createHmac('sha256', secret).update(`${purpose} ${signed}`).digest('base64url')}`;
}

test('a link opens its page with the names of the audiences, without a session, and nothing else', async () => {
  const storage = stored();
  const made = await composer(storage).link({ revision: await present(storage), page: PAGE });
  assert.deepEqual([made.status, Object.keys(made.body)], [200, ['url', 'expires']]);
  assert.equal(made.body.expires, new Date(Math.floor(NOW / 1000) * 1000 + 7 * DAY_MS).toISOString());
  const nobody = composer(storage, { roles: null });
  const seen = await nobody.see(tokenOf(made));
  const audiences = { member: 'Members', unnamed: 'unnamed', odd: 'odd' };
  assert.deepEqual([seen.status, seen.body], [200, { page: PAGE, text: FILES[PAGE], audiences, by: AUTHOR.name, expires: made.body.expires }]);
  assert.doesNotMatch(seen.text, /secret|roles|email|anna@/i);
  for (const { headers } of [seen, await nobody.see('x'), made]) {
    assert.deepEqual([headers.get('cache-control'), headers.get('referrer-policy'), headers.get('set-cookie')], ['no-store', 'no-referrer', null]);
  }
});

test('a link needs the role edit, and a page and a revision that exist', async () => {
  const storage = stored();
  const revision = await present(storage);
  for (const roles of [['view'], ['publish'], ['visitors'], []] as Role[][]) {
    assert.deepEqual((({ status, body }) => [status, body.code])(await composer(storage, { roles }).link({ revision, page: PAGE })), [403, 'role_missing']);
  }
  assert.equal((await composer(storage, { roles: null }).link({ revision, page: PAGE })).status, 401);
  const { link } = composer(storage);
  const answers: [object, number][] = [
    [{ revision, page: PAGE }, 200], [{ revision, page: 'routes/gone.json' }, 410], [{ revision: etagOf('other'), page: PAGE }, 410],
    [{ revision, page: 'site.json' }, 400], [{ revision, page: 'content/secret.json' }, 400], [{ revision, page: 'routes/../site.json' }, 400], [{ revision, page: '__proto__' }, 400],
    [{ revision: 'a'.repeat(REVISION_CHARS_MAX), page: PAGE }, 410], [{ revision: 'a'.repeat(REVISION_CHARS_MAX + 1), page: PAGE }, 400],
    [{ revision }, 400], [{ page: PAGE }, 400], [{ revision, page: PAGE, by: 'Someone' }, 400],
  ];
  for (const [body, status] of answers) assert.equal((await link(body)).status, status, JSON.stringify(body).slice(0, 90));
});

test('a link is valid for 1 to 30 whole days, and expires at its second', async () => {
  const storage = stored();
  const revision = await present(storage);
  const { link, see, time } = composer(storage);
  for (const days of [0, -1, PREVIEW_DAYS_MAX + 1, 1.5, 1e9, '7', null]) assert.equal((await link({ revision, page: PAGE, days })).status, 400, `${days}`);
  for (const days of [1, 2, PREVIEW_DAYS_MAX - 1, PREVIEW_DAYS_MAX]) {
    time.now = NOW;
    const token = tokenOf(await link({ revision, page: PAGE, days }));
    const end = Math.floor(NOW / 1000) * 1000 + days * DAY_MS;
    for (const [now, status] of [[end - 1, 200], [end, 401], [end + 1, 401]] as const) {
      time.now = now;
      assert.equal((await see(token)).status, status, `${days} days at ${now - end} ms`);
    }
  }
});

test('a token that is forged, cut, changed or of another purpose opens nothing', async () => {
  const storage = stored();
  const revision = await present(storage);
  const { link, see } = composer(storage, { roles: null });
  assert.equal((await link({ revision, page: PAGE })).status, 401);
  const token = tokenOf(await composer(storage).link({ revision, page: PAGE }));
  const claims = [revision, PAGE, AUTHOR.name];
  assert.equal((await see(token)).status, 200);
  assert.equal((await see(forged(claims))).status, 200, 'the form of the tests is the right one');
  const [expiry, body, signature] = token.split('.') as [string, string, string];
  const bodyOf = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const last = signature.at(-1)!;
  // Another last letter with the same bytes.
  const twin = [...'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'].find((one) => one !== last && Buffer.from(signature.slice(0, -1) + one, 'base64url').equals(Buffer.from(signature, 'base64url')))!;
  const bad: Record<string, string | null> = {
    'no token': null, 'an empty token': '', 'a word': 'x', 'two dots': '..',
    'another secret': forged(claims, { secret: 'another secret of the same length !' }),
    'the purpose of the links of the SDK': forged(claims, { purpose: 'px-preview' }), 'no purpose': forged(claims, { purpose: '' }),
    'an expired one': forged(claims, { expiry: Math.floor(NOW / 1000) }),
    'another expiry': `${Number(expiry) + 1}.${body}.${signature}`, 'an expiry with a zero before': `0${expiry}.${body}.${signature}`,
    'another page': `${expiry}.${bodyOf([revision, 'routes/secret.json', AUTHOR.name])}.${signature}`,
    'another revision': `${expiry}.${bodyOf([etagOf('x'), PAGE, AUTHOR.name])}.${signature}`, 'another person': `${expiry}.${bodyOf([revision, PAGE, 'Eve'])}.${signature}`,
    'no signature': `${expiry}.${body}.`, 'another letter': `${expiry}.${body}.${last === 'A' ? 'B' : 'A'}${signature.slice(1)}`, 'the same bytes': `${expiry}.${body}.${signature.slice(0, -1)}${twin}`,
    'a long one': `${expiry}.${body}${'A'.repeat(PREVIEW_TOKEN_CHARS_MAX)}.${signature}`, 'base64': `${expiry}.${body}=.${signature}`,
  };
  for (const [name, value] of Object.entries(bad)) {
    const { status, body: answer } = await see(value);
    assert.deepEqual([status, answer.code], [401, 'preview_not_valid'], name);
  }
  for (let length = 0; length < token.length; length++) assert.equal((await see(token.slice(0, length))).status, 401, `${length} characters`);
});

test('a token has at most 2,048 characters, and the longest page and name have less', async () => {
  const storage = stored();
  const { see } = composer(storage);
  const byLength = (length: number) => {
    const sign = (by: string) => signPreview(SECRET, { revision: 'a'.repeat(64), page: PAGE, by }, Math.floor(NOW / 1000) + 60);
    let by = 'a'.repeat(1_400);
    while (sign(by).length < length) by += 'a';
    return sign(by);
  };
  // A token of base64url has no length of 1 more than a multiple of 4.
  const lengths = [PREVIEW_TOKEN_CHARS_MAX - 1, PREVIEW_TOKEN_CHARS_MAX, PREVIEW_TOKEN_CHARS_MAX + 1].map((length) => byLength(length)).map((token) => [token.length, token] as const);
  for (const [length, token] of lengths) assert.equal((await see(token)).status, length <= PREVIEW_TOKEN_CHARS_MAX ? 410 : 401, `${length}`);
  assert.ok(lengths.some(([length]) => length > PREVIEW_TOKEN_CHARS_MAX) && lengths.some(([length]) => length <= PREVIEW_TOKEN_CHARS_MAX));
  const longest = signPreview(SECRET, { revision: 'a'.repeat(REVISION_CHARS_MAX), page: `routes/${'"'.repeat(188)}.json`, by: '"'.repeat(256) }, 9e11);
  assert.ok(longest.length <= PREVIEW_TOKEN_CHARS_MAX, `${longest.length}`);
});

test('a token in the URL is refused, and one in a body or a cookie opens nothing', async () => {
  const storage = stored();
  const { link, see, send } = composer(storage);
  const token = tokenOf(await link({ revision: await present(storage), page: PAGE }));
  for (const query of [`?preview=${token}`, `?token=${token}`, `?x-preview=${token}`, `?${token}`]) {
    for (const header of [null, token]) assert.equal((await see(header, query)).body.code, 'token_in_url', query);
  }
  assert.equal((await send('GET', `preview/${token}`, {})).status, 404);
  assert.equal((await send('GET', 'preview', { cookie: `x-preview=${token}` })).status, 401);
  assert.equal((await send('GET', 'preview', { authorization: `Bearer ${token}` })).status, 401);
  assert.equal((await send('GET', 'preview', { 'x-preview': token, 'sec-fetch-site': 'cross-site' })).status, 403);
  for (const method of ['PUT', 'DELETE', 'HEAD']) {
    const { status, headers } = await send(method, 'preview', { 'x-preview': token }).catch(() => assert.fail(method));
    assert.deepEqual([status, headers.get('allow')], [405, 'GET, POST'], method);
  }
});

test('the holder of a link reaches no other endpoint', async () => {
  const storage = stored();
  const revision = await present(storage);
  const token = tokenOf(await composer(storage).link({ revision, page: PAGE }));
  const touched = async (): Promise<never> => assert.fail('the storage was touched');
  const closed: Storage = { list: touched, save: touched, history: touched, at: touched, publish: touched, versions: touched, rollback: touched };
  const { send } = composer(closed, { roles: null });
  const header = { 'x-preview': token };
  for (const name of ['site', 'versions', 'history', `history/${'a'.repeat(40)}`, 'sizes']) assert.equal((await send('GET', name, header)).status, 401, name);
  for (const name of ['save', 'publish', 'rollback', 'explain', 'preview']) assert.equal((await send('POST', name, header, { revision, page: PAGE, x: 1 })).status, 401, name);
});

test('without a secret no link is made or opened, and a short secret is refused at the start', async () => {
  const storage = stored();
  const revision = await present(storage);
  const token = tokenOf(await composer(storage).link({ revision, page: PAGE }));
  const without = composer(storage, { previewSecret: undefined });
  assert.deepEqual([(await without.link({ revision, page: PAGE })).status, (await without.see(token)).status], [404, 404]);
  assert.ok(!(await without.send('GET', 'site', {})).body.features.includes('preview'));
  for (const length of [0, 1, PREVIEW_SECRET_CHARS_MIN - 1]) assert.throws(() => composer(storage, { previewSecret: 'x'.repeat(length) }), /'previewSecret' must have at least 32 characters/);
  for (const length of [PREVIEW_SECRET_CHARS_MIN, PREVIEW_SECRET_CHARS_MIN + 1]) composer(storage, { previewSecret: 'x'.repeat(length) });
});

test('without a history a link is gone with the next save of the site', async () => {
  const storage = stored();
  const { link, see } = composer(storage);
  const token = tokenOf(await link({ revision: await present(storage), page: PAGE }));
  await storage.save(saveOf(change('routes/b.json', page('/b', 'new'), SMALL['routes/b.json']!)));
  const { status, body } = await see(token);
  assert.deepEqual([status, body.code, body.detail], [410, 'preview_gone', 'The page has changed since this link was made. Ask for a new one.']);
});

test('with commits a link shows the page of its commit also after later saves, and files by hand only until they change', async () => {
  const directory = smallSite(FILES);
  const git = (...words: string[]) => execFileSync('git', ['-C', directory, '-c', 'user.name=A', '-c', 'user.email=a@example.com', ...words]);
  git('init', '-q');
  git('add', '.');
  git('commit', '-q', '-m', 'First');
  const storage = fileStorage({ directory, commit: true });
  const { link, see } = composer(storage);
  const first = tokenOf(await link({ revision: await present(storage), page: PAGE }));
  const edited = page('/a', 'Edited');
  const saved = await storage.save(saveOf(change(PAGE, edited, FILES[PAGE]!)));
  const second = tokenOf(await link({ revision: (saved as { revision: string }).revision, page: PAGE }));
  await storage.save(saveOf(change(PAGE, null, edited)));
  assert.deepEqual([(await see(first)).body.text, (await see(second)).body.text], [FILES[PAGE], edited]);
  const commits = await storage.history!(10);
  assert.equal((await see(tokenOf(await link({ revision: commits[1]!.revision, page: PAGE })))).body.text, edited);
  assert.equal((await link({ revision: commits[0]!.revision, page: PAGE })).status, 410, 'the page was removed there');
  // A change by hand has no commit.
  const plain = fileStorage({ directory });
  await plain.save(saveOf(change('routes/b.json', page('/b', 'By hand'), SMALL['routes/b.json']!)));
  const hand = tokenOf(await link({ revision: await present(plain), page: 'routes/b.json' }));
  assert.match((await see(hand)).body.text, /By hand/);
  await plain.save(saveOf(change('routes/b.json', page('/b', 'Again'), page('/b', 'By hand'))));
  assert.equal((await see(hand)).status, 410);
});

test('a link to a proposal reads its commit, and other failures of the storage are told', async () => {
  const commit = 'c'.repeat(40);
  const files = { [PAGE]: { text: 'proposed', etag: etagOf('proposed') } };
  const storage: Storage = {
    ...stored(),
    at: async (revision) => (revision === commit ? files : Promise.reject(new StorageError('revision_not_found', 'No.'))),
  };
  const { link, see } = composer(storage);
  const seen = await see(tokenOf(await link({ revision: commit, page: PAGE })));
  assert.deepEqual([seen.body.text, seen.body.audiences], ['proposed', {}]);
  const broken = composer({ ...storage, at: async () => Promise.reject(new StorageError('rate_limited', 'Later.')) });
  assert.equal((await broken.see(tokenOf(await link({ revision: commit, page: PAGE })))).body.code, 'rate_limited');
});

test('the page of a commit is read once in a minute, for at most 20 pages of at most 1 MiB', async () => {
  let reads = 0;
  let text = 'small';
  const files = () => Object.fromEntries(Array.from({ length: PREVIEWS_KEPT_MAX + 2 }, (_, n) => [`routes/${n}.json`, { text, etag: etagOf(text) }]));
  const storage: Storage = { ...stored(), at: async () => ((reads += 1), files()) };
  const { see, time } = composer(storage);
  const readsOf = async (...pages: number[]) => {
    reads = 0;
    for (const n of pages) assert.equal((await see(forged(['c'.repeat(40), `routes/${n}.json`, 'Ada'], { expiry: Math.floor(NOW / 1000) + 600 }))).status, 200);
    return reads;
  };
  assert.equal(await readsOf(0, 0, 0), 1);
  for (const [ms, count] of [[PREVIEW_KEPT_MS - 1, 0], [PREVIEW_KEPT_MS, 1], [PREVIEW_KEPT_MS + 1, 0]] as const) {
    time.now = NOW + ms;
    assert.equal(await readsOf(0), count, `${ms} ms`);
  }
  const pages = Array.from({ length: PREVIEWS_KEPT_MAX }, (_, n) => n);
  assert.equal(await readsOf(...pages), PREVIEWS_KEPT_MAX - 1);
  assert.equal(await readsOf(...pages), 0);
  assert.equal(await readsOf(PREVIEWS_KEPT_MAX, ...pages.slice(1), PREVIEWS_KEPT_MAX), 1);
  assert.equal(await readsOf(0), 1, 'the oldest was dropped');
  for (const [chars, count] of [[PREVIEW_KEPT_CHARS_MAX - 1, 1], [PREVIEW_KEPT_CHARS_MAX, 1], [PREVIEW_KEPT_CHARS_MAX + 1, 2]] as const) {
    text = 'a'.repeat(chars);
    time.now += PREVIEW_KEPT_MS;
    assert.equal(await readsOf(1, 1), count, `${chars} characters`);
  }
});

test('broken files of a revision are shown as they are', async () => {
  const directory = smallSite({ ...FILES, 'audiences.json': '[', [PAGE]: '{' });
  const storage = fileStorage({ directory });
  const { link, see } = composer(storage);
  const { body } = await see(tokenOf(await link({ revision: await present(storage), page: PAGE })));
  assert.deepEqual([body.text, body.audiences], ['{', {}]);
});
