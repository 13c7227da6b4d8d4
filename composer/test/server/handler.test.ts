import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { StorageError } from '../../src/server/errors.js';
import { GitHubError } from '../../src/server/github/errors.js';
import { fileStorage } from '../../src/server/files.js';
import { type HandlerOptions, type Role, composerHandler } from '../../src/server/handler.js';
import { ADMIN_BYTES_MAX, BODY_BYTES_MAX, EXPLAIN_TEXT_CHARS_MAX, EXPLAIN_URL_CHARS_MAX, SAVE_BODY_BYTES_MAX } from '../../src/server/limits.js';
import type { Storage } from '../../src/server/storage.js';
import { AUTHOR, FIVE, SMALL, change, etagOf, saveOf, smallSite } from './site.js';

const ORIGIN = 'https://www.example.com';
const REVISION = 'a'.repeat(40);
const TOKEN = 'pxt_a-secret-token';
const SECRET = 'a secret of the previews, for tests';
const ROLES: Role[] = ['view', 'edit', 'publish', 'visitors'];

/** A storage with all operations and no files of its own. */
function storageWithAll(more: Partial<Storage> = {}): Storage {
  const [text, index] = [SMALL['site.json']!, SMALL['routes/index.json']!];
  const files = { 'site.json': { text, etag: etagOf(text) }, 'routes/index.json': { text: index, etag: etagOf(index) } };
  return {
    list: async () => ({ revision: REVISION, files }),
    save: async () => ({ kind: 'saved', revision: REVISION }),
    history: async () => [{ revision: REVISION, message: 'm', author: 'a', at: '2026-01-01T00:00:00Z' }],
    at: async () => files,
    publish: async () => ({ status: 'published' }),
    versions: async () => [{ version: '2', at: null, isServed: true }],
    rollback: async () => ({ status: 'published again' }),
    ...more,
  };
}

interface Admin {
  url: string;
  requests: { url: string; headers: NodeJS.Dict<string | string[]>; body: string }[];
  /** The next answers. */
  answer: { status: number; body: string; headers?: Record<string, string> } | 'silence';
}

/** Starts an admin address that gives any answer. */
async function adminAddress(t: { after(end: () => void): void }, answer: Admin['answer']): Promise<Admin> {
  const admin: Admin = { url: '', requests: [], answer };
  const server = createServer(async (request, response) => {
    let body = '';
    for await (const part of request) body += part;
    admin.requests.push({ url: request.url!, headers: request.headers, body });
    if (admin.answer === 'silence') return;
    response.writeHead(admin.answer.status, { 'content-type': 'application/json', ...admin.answer.headers });
    response.end(admin.answer.body);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => (server.close(), server.closeAllConnections()));
  admin.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return admin;
}

const DECISION = {
  type: 'decision', site: 'small', route: '/', variants: '', selected: {}, experiments: [], decisions: [{ zone: 'hero' }],
  visitor: { traits: { email: 'secret@example.com' } }, visitorToken: 'secret-token', more: 'secret',
};

function handlerOf(roles: Role[], more: Partial<HandlerOptions> = {}): (request: Request) => Promise<Response> {
  return composerHandler({ storage: storageWithAll(), authorize: async () => ({ user: AUTHOR, roles }), onError: () => {}, previewSecret: SECRET, ...more });
}

const get = (path: string, headers: Record<string, string> = {}) => new Request(`${ORIGIN}/api/composer/${path}`, { headers });
function post(path: string, body: unknown, headers: Record<string, string> = {}): Request {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  return new Request(`${ORIGIN}/api/composer/${path}`, { method: 'POST', body: text, headers: { origin: ORIGIN, 'content-type': 'application/json', ...headers } });
}

interface Answer {
  status: number;
  code?: string;
  body: any;
}

async function answerOf(promise: Promise<Response>): Promise<Answer> {
  const response = await promise;
  const text = await response.text();
  const body = text === '' ? null : JSON.parse(text);
  if (response.status >= 400) {
    assert.equal(response.headers.get('content-type'), 'application/problem+json');
    assert.equal(response.headers.get('cache-control'), 'no-store');
    assert.equal(body.status, response.status);
    assert.equal(typeof body.detail, 'string');
  }
  return { status: response.status, code: body?.code, body };
}

const SAVE = { base: REVISION, changes: [{ path: 'routes/x.json', text: '{}', etag: null }], message: 'm' };
const REQUESTS: [name: string, request: () => Request, roles: Role[]][] = [
  ['site', () => get('site'), ['view']],
  ['save', () => post('save', SAVE), ['edit']],
  ['publish', () => post('publish', { revision: REVISION }), ['publish']],
  ['versions', () => get('versions'), ['view']],
  ['rollback', () => post('rollback', { version: '1', newest: '2' }), ['publish']],
  ['preview', () => post('preview', { revision: REVISION, page: 'routes/index.json' }), ['edit']],
  ['history', () => get('history'), ['view']],
  ['history/REVISION', () => get(`history/${REVISION}`), ['view']],
  ['sizes', () => get('sizes'), ['view']],
  ['explain', () => post('explain', { path: '/' }), ['view']],
  ['explain for a visitor', () => post('explain', { path: '/', anonId: 'v1' }), ['view', 'visitors']],
];

test('each route needs its roles, and only these', async (t) => {
  const admin = await adminAddress(t, { status: 200, body: JSON.stringify({ ...DECISION, audiences: [] }) });
  const parallax = { adminUrl: admin.url, token: TOKEN };
  const sets = Array.from({ length: 16 }, (_, bits) => ROLES.filter((_, n) => bits & (1 << n)));
  for (const [name, request, needed] of REQUESTS) {
    for (const roles of sets) {
      const isAllowed = needed.every((role) => roles.includes(role));
      const { status, code } = await answerOf(handlerOf(roles, { parallax })(request()));
      assert.deepEqual([status, code], isAllowed ? [200, undefined] : [403, 'role_missing'], `${name} with ${roles}`);
    }
    const nobody = handlerOf([], { parallax, authorize: async () => null });
    assert.deepEqual((({ status, code }) => [status, code])(await answerOf(nobody(request()))), [401, 'unauthorized'], name);
  }
});

test('a request without a role reaches neither the storage nor the server', async (t) => {
  const admin = await adminAddress(t, { status: 200, body: '{}' });
  const touched = async (): Promise<never> => assert.fail('the storage was touched');
  const storage: Storage = { list: touched, save: touched, history: touched, at: touched, publish: touched, versions: touched, rollback: touched };
  for (const [, request] of REQUESTS) await answerOf(handlerOf([], { storage, parallax: { adminUrl: admin.url, token: TOKEN } })(request()));
  assert.equal(admin.requests.length, 0);
});

test('options that cannot be used throw', () => {
  const storage = storageWithAll();
  const authorize = async () => null;
  assert.throws(() => composerHandler({ storage } as unknown as HandlerOptions), /'authorize' is missing/);
  assert.throws(() => composerHandler({ authorize } as unknown as HandlerOptions), /'storage' is missing/);
  assert.throws(() => composerHandler({ storage, authorize, origin: `${ORIGIN}/` }), /'origin'/);
  for (const adminUrl of ['', 'x', 'ftp://a', 'http://user:secret@a', 'http://a/?q']) assert.throws(() => composerHandler({ storage, authorize, parallax: { adminUrl, token: TOKEN } }), TypeError, adminUrl);
  for (const token of ['', 'a b', 'a\n']) assert.throws(() => composerHandler({ storage, authorize, parallax: { adminUrl: 'http://a', token } }), /token/);
});

test('an unknown path and another method are refused', async () => {
  const handler = handlerOf(ROLES);
  for (const path of ['', 'x', 'history/x', 'history/REVISION', 'site/', '__proto__', 'constructor', 'toString']) {
    assert.deepEqual((await answerOf(handler(get(path)))).code, 'unknown_endpoint', path);
  }
  for (const [path, method] of [['site', 'POST'], ['save', 'GET'], ['site', 'HEAD'], ['save', 'DELETE'], ['explain', 'GET'], ['site', 'OPTIONS']] as const) {
    const response = await handler(new Request(`${ORIGIN}/x/${path}`, { method }));
    assert.equal(response.status, 405, `${method} ${path}`);
    assert.equal(response.headers.get('allow'), path === 'site' ? 'GET' : 'POST');
  }
});

test('requests that the page of another site can start are refused', async () => {
  const handler = handlerOf(ROLES);
  const status = async (request: Request, of = handler) => (await of(request)).status;
  const posted = (headers: Record<string, string>) => new Request(`${ORIGIN}/save`, { method: 'POST', body: JSON.stringify(SAVE), headers });
  const type = { 'content-type': 'application/json' };
  assert.equal(await status(posted({ origin: ORIGIN, ...type })), 200);
  assert.equal(await status(posted({ origin: ORIGIN, 'content-type': 'Application/JSON; charset=utf-8' })), 200);
  assert.equal(await status(posted({ origin: ORIGIN, ...type, 'sec-fetch-site': 'same-origin' })), 200);
  for (const origin of ['https://evil.example', 'null', 'http://www.example.com', `${ORIGIN}:444`, `${ORIGIN}.evil.example`, '']) {
    assert.equal(await status(posted({ origin, ...type })), 403, origin);
  }
  assert.equal(await status(posted(type)), 403);
  for (const bad of ['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data; boundary=application/json', 'application/jsonp', '']) {
    assert.equal(await status(posted({ origin: ORIGIN, 'content-type': bad })), 415, bad);
  }
  assert.equal(await status(posted({ origin: ORIGIN, ...type, 'sec-fetch-site': 'cross-site' })), 403);
  assert.equal(await status(get('site', { 'sec-fetch-site': 'cross-site' })), 403);
  assert.equal(await status(get('site', { 'sec-fetch-site': 'none' })), 200);
  // Behind a proxy only the configured origin counts.
  const behind = handlerOf(ROLES, { origin: 'https://edit.example.com' });
  assert.equal(await status(posted({ origin: 'https://edit.example.com', ...type }), behind), 200);
  assert.equal(await status(posted({ origin: ORIGIN, ...type }), behind), 403);
});

test('a failing authorize and a failing storage are a 500 without details', async () => {
  const secret = new Error('connect postgres://user:secret@db');
  const seen: unknown[] = [];
  const onError = (error: unknown) => seen.push(error);
  for (const more of [{ authorize: async () => Promise.reject(secret) }, { authorize: () => { throw secret; } }, { storage: storageWithAll({ list: async () => Promise.reject(secret) }) }]) {
    const { status, code, body } = await answerOf(handlerOf(['view'], { ...more, onError })(get('site')));
    assert.deepEqual([status, code], [500, 'internal']);
    assert.doesNotMatch(JSON.stringify(body), /secret/);
  }
  assert.deepEqual(seen, [secret, secret, secret]);
  for (const session of [{}, { roles: 'view' }, { roles: null, user: AUTHOR }, 'x']) {
    const { status } = await answerOf(handlerOf([], { authorize: async () => session as never })(get('site')));
    assert.ok(status === 500 || status === 403, JSON.stringify(session));
  }
  const unknown = handlerOf([], { authorize: async () => ({ user: AUTHOR, roles: ['admin', '__proto__'] as never }) });
  assert.equal((await answerOf(unknown(get('site')))).status, 403);
});

test('refusals of the storage are problems with their codes', async () => {
  const codes = [['locked', 503], ['disk_full', 507], ['file_too_large', 413], ['invalid_path', 400], ['revision_changed', 409], ['git_failed', 500]] as const;
  for (const [code, status] of codes) {
    const storage = storageWithAll({ save: async () => Promise.reject(new StorageError(code, 'The detail.', { cause: new Error('secret') })) });
    const response = await handlerOf(['edit'], { storage })(post('save', SAVE));
    assert.equal(response.status, status);
    assert.equal(response.headers.get('retry-after'), status === 503 ? '2' : null);
    assert.deepEqual(await response.json(), { code, detail: 'The detail.', status });
  }
});

test('failures of GitHub are problems with their words, and with the time of a rate limit', async () => {
  const answer = async (error: GitHubError) => {
    const storage = storageWithAll({ save: async () => Promise.reject(error) });
    const response = await handlerOf(['edit'], { storage })(post('save', SAVE));
    return [response.status, response.headers.get('retry-after'), ((await response.json()) as { detail: string }).detail];
  };
  assert.deepEqual(await answer(new GitHubError('bad_token', 'Give the composer a new one.', { status: 401 })), [502, null, 'Give the composer a new one.']);
  const [status, wait] = await answer(new GitHubError('rate_limited', 'Later.', { status: 403, retryAt: Date.now() + 90_000 }));
  assert.equal(status, 503);
  assert.ok(Number(wait) >= 80 && Number(wait) <= 90, `${wait}`);
});

test('the site has its files, the user and the roles, and an ETag of all of them', async () => {
  const directory = smallSite();
  const storage = fileStorage({ directory });
  const handler = handlerOf(['view', 'edit'], { storage });
  const first = await handler(get('site'));
  assert.equal(first.headers.get('cache-control'), 'private, no-cache');
  const etag = first.headers.get('etag')!;
  const body = (await first.json()) as any;
  assert.deepEqual(body, { ...(await storage.list()), user: AUTHOR, roles: ['view', 'edit'], features: ['preview'] });
  for (const known of [etag, `W/${etag}`, `"x", ${etag}`, '*']) {
    const second = await handler(get('site', { 'if-none-match': known }));
    assert.deepEqual([second.status, await second.text(), second.headers.get('etag')], [304, '', etag], known);
  }
  assert.equal((await handler(get('site', { 'if-none-match': '"x"' }))).status, 200);
  const asViewer = await handlerOf(['view'], { storage })(get('site', { 'if-none-match': etag }));
  assert.equal(asViewer.status, 200);
  await storage.save(FIVE);
  assert.equal((await handler(get('site', { 'if-none-match': etag }))).status, 200);
});

test('a save is written, and one with an old ETag is a 409 with the present files', async () => {
  const storage = fileStorage({ directory: smallSite() });
  const handler = handlerOf(['view', 'edit'], { storage });
  const { base, changes, message } = FIVE;
  const saved = await answerOf(handler(post('save', { base, changes, message })));
  assert.deepEqual(saved.body, { kind: 'saved', revision: (await storage.list()).revision });
  const { status, body } = await answerOf(handler(post('save', { base, changes: changes.slice(0, 1), message })));
  assert.equal(status, 409);
  const { files, revision } = await storage.list();
  assert.deepEqual(body, { code: 'conflict', detail: body.detail, status: 409, revision, files: { 'routes/a.json': files['routes/a.json'] } });
});

test('the author of a save is the person of the session', async () => {
  let author: unknown;
  const storage = storageWithAll({ save: async (save) => ((author = save.author), { kind: 'saved', revision: REVISION }) });
  await answerOf(handlerOf(['edit'], { storage })(post('save', SAVE)));
  assert.deepEqual(author, AUTHOR);
  assert.equal((await answerOf(handlerOf(['edit'], { storage })(post('save', { ...SAVE, author: { name: 'X', email: 'x' } })))).code, 'invalid_body');
});

test('hostile JSON is refused and changes nothing of this process', async () => {
  const handler = handlerOf(ROLES, { storage: fileStorage({ directory: smallSite() }) });
  const deep = `${'['.repeat(200_000)}${']'.repeat(200_000)}`;
  const bodies = [
    '', '{', 'null', '[]', '1', '"x"', '{}', '\u0000', deep, `{"base":${deep}}`, `{"base":"","message":"m","changes":${deep}}`,
    '{"__proto__":{"base":"x","changes":[],"message":"m"}}', '{"base":"","message":"m","changes":[],"__proto__":{"polluted":1}}', '{"constructor":{"prototype":{"polluted":1}}}',
    '{"base":"","message":"m","changes":{"length":1}}', '{"base":"","message":"m","changes":[null]}', '{"base":"","message":"m","changes":[[]]}',
    '{"base":"","message":"m","changes":[{"path":"routes/x.json","text":"{}"}]}', '{"base":"","message":"m","changes":[{"path":"routes/x.json","text":1,"etag":null}]}',
    '{"base":"","message":{"toString":1},"changes":[]}', '{"base":"","message":"m","changes":[{"path":["routes/x.json"],"text":"{}","etag":null}]}',
  ];
  for (const body of bodies) {
    const { status, code } = await answerOf(handler(post('save', body)));
    assert.deepEqual([status, code], [400, 'invalid_body'], body.slice(0, 100));
    assert.equal((await answerOf(handler(post('explain', body)))).status, 404, 'no server is configured');
  }
  assert.equal(({} as { polluted?: number }).polluted, undefined);
  const odd = change('routes/__proto__.json', '{"__proto__":1}', null);
  assert.equal((await answerOf(handler(post('save', { ...SAVE, changes: [odd] })))).status, 200);
  const bytes = new Uint8Array([0x22, 0xff, 0x22]);
  const notUtf8 = new Request(`${ORIGIN}/save`, { method: 'POST', body: bytes, headers: { origin: ORIGIN, 'content-type': 'application/json' } });
  assert.equal((await answerOf(handler(notUtf8))).code, 'invalid_body');
});

/** A body of spaces in parts, without a content length. Counts the parts that are read. */
function streamed(path: string, bytes: number): { request: Request; read: () => number } {
  const part = new Uint8Array(1 << 16).fill(0x20);
  let left = bytes;
  let count = 0;
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      const next = part.subarray(0, Math.min(left, part.length));
      left -= next.length;
      count += next.length;
      if (next.length > 0) controller.enqueue(next);
      else controller.close();
    },
  });
  const init = { method: 'POST', body, duplex: 'half', headers: { origin: ORIGIN, 'content-type': 'application/json' } };
  return { request: new Request(`${ORIGIN}/${path}`, init as RequestInit), read: () => count };
}

test('bodies are bounded, also without a content length', async () => {
  const handler = handlerOf(ROLES);
  for (const [path, limit] of [['save', SAVE_BODY_BYTES_MAX], ['publish', BODY_BYTES_MAX]] as const) {
    for (const [bytes, status] of [[limit - 1, 400], [limit, 400], [limit + 1, 413]] as const) {
      assert.equal((await answerOf(handler(streamed(path, bytes).request))).status, status, `${path} ${bytes}`);
    }
    const endless = streamed(path, Number.POSITIVE_INFINITY);
    assert.equal((await answerOf(handler(endless.request))).code, 'body_too_large');
    assert.ok(endless.read() < limit + (1 << 20), `${endless.read()}`);
    const told = streamed(path, 10);
    told.request.headers.set('content-length', String(limit + 1));
    assert.equal((await answerOf(handler(told.request))).status, 413);
  }
});

test('a request that the storage or the configuration cannot answer is a 404', async () => {
  const { list, save } = storageWithAll();
  const handler = handlerOf(ROLES, { storage: { list, save }, previewSecret: undefined });
  for (const [name, request] of REQUESTS) {
    const expected = ['site', 'save'].includes(name) ? [200, undefined] : [404, 'not_available'];
    assert.deepEqual((({ status, code }) => [status, code])(await answerOf(handler(request()))), expected, name);
  }
});

test('an unknown revision is a 404', async () => {
  const storage = storageWithAll({ at: async () => Promise.reject(new StorageError('revision_not_found', 'No.')) });
  assert.equal((await answerOf(handlerOf(['view'], { storage })(get(`history/${REVISION}`)))).code, 'revision_not_found');
});

test('of an explanation only the decision and its reasons are sent on', async (t) => {
  const admin = await adminAddress(t, { status: 200, body: JSON.stringify(DECISION) });
  const handler = handlerOf(['view', 'visitors'], { parallax: { adminUrl: `${admin.url}/parallax`, token: TOKEN } });
  const question = { path: '/a b', url: 'https://x/?a=b&site=other', visitor: { country: 'DE', events: [{ event: 'Ordered', at: '-3d' }] } };
  const invented = await answerOf(handler(post('explain', question)));
  const real = await answerOf(handler(post('explain', { path: '/', country: 'DE', userId: 'a&site=other' })));
  for (const { status, body } of [invented, real]) {
    assert.equal(status, 200);
    assert.deepEqual(Object.keys(body), ['type', 'site', 'route', 'variants', 'selected', 'experiments', 'decisions']);
    assert.doesNotMatch(JSON.stringify(body), /secret/);
  }
  const [first, second] = admin.requests;
  assert.equal(first!.url, '/parallax/explain?site=small');
  assert.deepEqual(JSON.parse(first!.body), question);
  assert.equal(first!.headers.authorization, `Bearer ${TOKEN}`);
  const url = new URL(second!.url, admin.url);
  assert.equal(url.pathname, '/parallax/v1/variants');
  assert.deepEqual([...url.searchParams], [['site', 'small'], ['route', '/'], ['country', 'DE'], ['explain', '1']]);
  assert.equal(second!.headers['x-visitor'], 'userId=a%26site%3Dother');
  assert.doesNotMatch(second!.url, /userId/);
  const redirect = { type: 'redirect', site: 'small', route: '/', pattern: '/', params: {}, to: '/x', status: 301 };
  admin.answer = { status: 200, body: JSON.stringify({ ...redirect, visitor: {} }) };
  assert.deepEqual((await answerOf(handler(post('explain', { path: '/' })))).body, redirect);
});

test('a question about a visitor is bounded', async (t) => {
  const admin = await adminAddress(t, { status: 200, body: JSON.stringify(DECISION) });
  const handler = handlerOf(ROLES, { parallax: { adminUrl: admin.url, token: TOKEN } });
  const status = async (body: unknown) => (await answerOf(handler(post('explain', body)))).status;
  for (const [chars, expected] of [[EXPLAIN_TEXT_CHARS_MAX - 1, 200], [EXPLAIN_TEXT_CHARS_MAX, 200], [EXPLAIN_TEXT_CHARS_MAX + 1, 400]] as const) {
    assert.equal(await status({ path: '/', url: 'a'.repeat(chars) }), expected, `${chars}`);
  }
  const rest = EXPLAIN_URL_CHARS_MAX - 'site=small&route=%2F&url=&referrer=&explain=1'.length;
  for (const [more, expected] of [[-1, 200], [0, 200], [1, 400]] as const) {
    assert.equal(await status({ path: '/', anonId: 'a', url: 'a'.repeat(4_000), referrer: 'a'.repeat(rest - 4_000 + more) }), expected, `${more}`);
  }
  for (const body of [{}, { path: 1 }, { path: '/', explain: '0' }, { path: '/', site: 'other' }, { path: '/', anonId: 'a', userId: 'b' }, { path: '/', visitor: '1' }, { path: '/', override: [] }, { path: '/', anonId: 'a', visitor: {} }, { path: '/', url: '\ud800' }]) {
    assert.equal(await status(body), 400, JSON.stringify(body));
  }
});

test('a site without an ID gives no numbers', async (t) => {
  const admin = await adminAddress(t, { status: 200, body: '{}' });
  for (const text of ['', '{', '[]', 'null', '{"site":1}', '{"site":""}']) {
    const storage = storageWithAll({ list: async () => ({ revision: REVISION, files: { 'site.json': { text, etag: etagOf(text) } } }) });
    const handler = handlerOf(['view'], { storage, parallax: { adminUrl: admin.url, token: TOKEN } });
    assert.equal((await answerOf(handler(get('sizes')))).code, 'invalid_site', text);
  }
  assert.equal(admin.requests.length, 0);
});

test('answers of the admin address leak neither its token nor its address', async (t) => {
  const admin = await adminAddress(t, 'silence');
  const handler = handlerOf(['view'], { parallax: { adminUrl: admin.url, token: TOKEN } });
  const leak = `${TOKEN} at ${admin.url}`;
  const problem = (code: string, detail = 'The detail.') => JSON.stringify({ code, detail, requestId: leak, type: leak });
  const cases: [Admin['answer'], number, string][] = [
    [{ status: 404, body: problem('site_not_found') }, 404, 'site_not_found'],
    [{ status: 400, body: problem('invalid_param') }, 400, 'invalid_param'],
    [{ status: 400, body: problem('invalid_param', leak) }, 502, 'admin_failed'],
    [{ status: 404, body: problem('site_not_found', leak) }, 502, 'admin_refused'],
    [{ status: 400, body: problem(leak) }, 502, 'admin_failed'],
    [{ status: 404, body: problem('unknown_endpoint') }, 502, 'admin_refused'],
    [{ status: 401, body: problem('unauthorized', leak) }, 502, 'admin_refused'],
    [{ status: 403, body: leak }, 502, 'admin_refused'],
    [{ status: 429, body: problem('rate_limited', leak), headers: { 'retry-after': '7' } }, 503, 'admin_busy'],
    [{ status: 503, body: leak, headers: { 'retry-after': leak } }, 503, 'admin_busy'],
    [{ status: 500, body: leak }, 502, 'admin_failed'],
    [{ status: 302, body: '{}', headers: { location: admin.url } }, 502, 'admin_failed'],
    [{ status: 200, body: leak }, 502, 'admin_failed'],
    [{ status: 200, body: '', headers: { location: leak } }, 502, 'admin_failed'],
  ];
  for (const [answer, status, code] of cases) {
    admin.answer = answer;
    const response = await handler(get('sizes'));
    const text = JSON.stringify([...response.headers]) + (await response.text());
    assert.equal(response.status, status, text);
    assert.equal(JSON.parse(text.slice(text.indexOf('{'))).code, code, text);
    assert.ok(!text.includes(TOKEN) && !text.includes(admin.url), text);
  }
  const nobody = handlerOf(['view'], { parallax: { adminUrl: 'http://127.0.0.1:1', token: TOKEN } });
  const { code, body } = await answerOf(nobody(get('sizes')));
  assert.equal(code, 'admin_unreachable');
  assert.doesNotMatch(JSON.stringify(body), /127\.0\.0\.1/);
});

test('an answer of the admin address is bounded in bytes and in time', async (t) => {
  const admin = await adminAddress(t, 'silence');
  const handler = handlerOf(['view'], { parallax: { adminUrl: admin.url, token: TOKEN } });
  const sized = (bytes: number) => ({ status: 200, body: `{"at":"${'a'.repeat(bytes - 9)}"}` });
  for (const [bytes, status] of [[ADMIN_BYTES_MAX - 1, 200], [ADMIN_BYTES_MAX, 200], [ADMIN_BYTES_MAX + 1, 502]] as const) {
    admin.answer = sized(bytes);
    assert.equal((await answerOf(handler(get('sizes')))).status, status, `${bytes}`);
  }
  t.mock.method(AbortSignal, 'timeout', () => AbortSignal.abort(new DOMException('late', 'TimeoutError')));
  assert.equal((await answerOf(handler(get('sizes')))).code, 'admin_timeout');
});

test('a save of another storage passes on the URL of its pull request', async () => {
  const storage = storageWithAll({ save: async () => ({ kind: 'saved', revision: REVISION, url: 'https://example.com/pull/1' }) });
  const { body } = await answerOf(handlerOf(['edit'], { storage })(post('save', { base: '', message: 'm', changes: saveOf(change('site.json', '{}', null)).changes })));
  assert.deepEqual(body, { kind: 'saved', revision: REVISION, url: 'https://example.com/pull/1' });
});

test('a save that changes a locked zone is refused, and one that moves the block around it is not', async () => {
  const directory = smallSite();
  const storage = fileStorage({ directory });
  const text = (zones: object) => JSON.stringify({ path: '/locks', layout: { root: { props: {} }, zones } });
  const inner = { default: [{ id: 'a', type: 'Text', props: {} }], variants: { b: [] }, rules: [] };
  const box = (id: string, content: object) => ({ id, type: 'Box', props: {}, zones: { inner: content } });
  const present = text({ main: [box('one', inner), { id: 'two', type: 'Text', props: {} }] });
  const save = async (from: string | null, to: string | null, canEdit?: HandlerOptions['canEdit']) => {
    const handler = handlerOf(['edit', 'view'], { storage, canEdit });
    const { revision } = await storage.list();
    const changes = [{ path: 'routes/locks.json', text: to, etag: from === null ? null : etagOf(from) }];
    const { status, code } = await answerOf(handler(post('save', { base: revision, message: 'm', changes })));
    return [status, code];
  };
  const locked = (_: unknown, { zone }: { zone: string }) => zone !== 'inner';
  assert.deepEqual(await save(null, present, locked), [403, 'zone_locked'], 'a new page with a locked zone');
  assert.deepEqual(await save(null, present), [200, undefined]);
  const refused = [
    text({ main: [box('one', { ...inner, rules: [{ when: {}, variant: 'b' }] }), { id: 'two', type: 'Text', props: {} }] }),
    text({ main: [box('one', { ...inner, default: [] }), { id: 'two', type: 'Text', props: {} }] }),
    text({ main: [{ id: 'two', type: 'Text', props: {} }] }),
    '{',
    null,
  ];
  for (const other of refused) assert.deepEqual(await save(present, other, locked), [403, 'zone_locked'], `${other}`);
  const moved = text({ main: [{ id: 'two', type: 'Text', props: { text: 'x' } }, box('one', inner)] });
  assert.deepEqual(await save(present, moved, locked), [200, undefined]);
  const places: unknown[] = [];
  await save(moved, present, ({ user }, place) => (places.push([user.name, place]), true));
  assert.deepEqual(places, [[AUTHOR.name, { file: 'routes/locks.json', zone: 'main' }]], 'it is asked about changed zones only');
});
