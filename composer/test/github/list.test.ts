import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { type FakeGitHub, OWNER, TOKEN, problem } from './fake-github.js';
import { HOME, NOW, SITE, etagOf, failure, githubWith, storageOf } from './site.js';

const blobs = (github: FakeGitHub) => github.requests.filter(({ path }) => path.includes('/git/blobs/')).length;
const texts = (files: Record<string, { text: string }>) => Object.fromEntries(Object.entries(files).map(([path, { text }]) => [path, text]));
const within = (directory: string, files: Record<string, string>) =>
  Object.fromEntries(Object.entries(files).map(([path, text]) => [`${directory}/${path}`, text]));

describe('a listing from GitHub', () => {
  let github: FakeGitHub;
  beforeEach(async () => void (github = await githubWith()));
  afterEach(() => {
    github.stop();
    assert.deepEqual(github.violations, []);
  });

  test('it has the files of the site with their hashes, and no others', async () => {
    const { revision, files } = await storageOf(github).list();
    assert.equal(revision, github.branches().main);
    assert.deepEqual(texts(files), SITE);
    for (const [path, { etag }] of Object.entries(files)) assert.equal(etag, etagOf(SITE[path]!));
  });

  test('the directory of a site is below the root', async () => {
    github.commit({ ...within('sites/shop', SITE), 'sites/shop/README.md': '', 'sites/site.json': 'other' });
    for (const directory of ['sites/shop', '/sites/shop/']) assert.deepEqual(texts((await storageOf(github, { directory }).list()).files), SITE);
  });

  test('a directory that does not exist is an error with its name', async () => {
    for (const directory of ['sites', 'README.md', 'routes/nothing']) {
      const { code, message } = await failure(storageOf(github, { directory }).list());
      assert.equal(code, 'no_directory');
      assert.ok(message.includes(`main has no directory ${directory}`), message);
    }
  });

  test('a blob is requested once, also for two files and later listings', async () => {
    const storage = storageOf(github);
    github.commit({ 'routes/copy.json': HOME });
    await storage.list();
    assert.equal(blobs(github), Object.keys(SITE).length);
    github.commit({ 'routes/index.json': '{}\n' });
    const { files } = await storage.list();
    assert.equal(blobs(github), Object.keys(SITE).length + 1);
    assert.equal(files['routes/index.json']!.text, '{}\n');
    assert.equal(files['routes/copy.json']!.text, HOME);
  });

  test('at most ten requests run at the same time', async () => {
    github.commit(Object.fromEntries(Array.from({ length: 60 }, (_, n) => [`routes/p${n}.json`, `{"path":"/p${n}"}`])));
    let [running, most] = [0, 0];
    const counted = (async (url: URL, init: RequestInit) => {
      most = Math.max(most, ++running);
      return fetch(url, init).finally(() => running--);
    }) as typeof fetch;
    await storageOf(github, { fetch: counted }).list();
    assert.equal(most, 10);
  });

  test('a truncated tree is read directory by directory', async () => {
    const many = Object.fromEntries(Array.from({ length: 40 }, (_, n) => [`routes/d${n % 4}/e${n % 2}/p${n}.json`, `{"n":${n % 3}}`]));
    github.commit({ ...many, ...within('other/deep', many) });
    github.entriesMax = 9;
    assert.deepEqual(texts((await storageOf(github).list()).files), { ...SITE, ...many });
    // The directories that hold no files of the site are not read.
    const { other } = Object.fromEntries(
      github
        .git('ls-tree', 'main')
        .split('\n')
        .map((line) => [line.split('\t')[1]!, line.split(/\s/)[2]!]),
    );
    assert.ok(!github.requests.some(({ path }) => path.includes(other!)));
  });

  test('a directory that GitHub cuts even alone is an error', async () => {
    const cut = (await (
      await fetch(`${github.url}/repos/Acme/site/git/trees/${github.git('rev-parse', 'main^{tree}')}`, {
        headers: { authorization: `Bearer ${TOKEN}` },
      })
    ).json()) as object;
    github.fault = ({ path }) => (path.includes('/git/trees/') ? { status: 200, body: { ...cut, truncated: true } } : undefined);
    assert.equal((await failure(storageOf(github).list())).code, 'too_many_files');
    assert.equal((await failure(storageOf(github, { directory: 'nothing' }).list())).code, 'too_many_files');
  });

  test('links, odd names and directories in the place of a file are left out', async () => {
    github.commit({ 'routes/link.json': '->index.json', 'routes/a.json/b.json': '{}', 'routes/b\\c.json': '{}', 'routes/c\u200bd.json': '{}' });
    assert.deepEqual(texts((await storageOf(github).list()).files), SITE);
  });

  test('a byte order mark stays, and other bytes than UTF-8 are an error with the path', async () => {
    const text = '\ufeff{}\r\n\u0000';
    github.commit({ 'routes/bom.json': text });
    const { files } = await storageOf(github).list();
    assert.deepEqual(files['routes/bom.json'], { text, etag: etagOf(text) });
    github.commit({ 'routes/latin.json': Uint8Array.of(0x22, 0xe4, 0x22) });
    const { code, message } = await failure(storageOf(github).list());
    assert.equal(code, 'not_utf8');
    assert.match(message, /^routes\/latin\.json /);
  });

  test('a blob with other bytes than its name says is an error', async () => {
    const body = (content: string) => ({ content, encoding: 'base64', url: 'https://a.example', sha: 'x', size: 1, node_id: '' });
    for (const content of ['e30K', '', '*']) {
      github.fault = ({ path }) => (path.includes('/git/blobs/') ? { status: 200, body: body(content) } : undefined);
      assert.equal((await failure(storageOf(github).list())).code, 'bad_answer');
    }
  });
});

describe('the branch of a site on GitHub', () => {
  let github: FakeGitHub;
  beforeEach(async () => void (github = await githubWith()));
  afterEach(() => {
    github.stop();
    assert.deepEqual(github.violations, []);
  });

  for (const redirects of [true, false]) {
    test(`a renamed default branch is found, ${redirects ? 'by a redirect' : 'by a second question'}`, async () => {
      const storage = storageOf(github);
      await storage.list();
      github.renameBranch('main', 'trunk/new', redirects);
      github.commit({ 'audiences.json': '{"a":1}' }, 'trunk/new');
      const before = github.requests.length;
      const { revision, files } = await storage.list();
      assert.equal(revision, github.branches()['trunk/new']);
      assert.equal(files['audiences.json']!.text, '{"a":1}');
      const asked = github.requests.slice(before).filter(({ path }) => path === '/repos/Acme/site').length;
      assert.equal(asked, redirects ? 0 : 1);
    });
  }

  test('another default branch is noticed after a minute', async () => {
    let time = NOW;
    const storage = storageOf(github, { now: () => time });
    await storage.list();
    github.git('branch', 'next', 'main');
    github.commit({ 'audiences.json': '{"b":1}' }, 'next');
    github.defaultBranch = 'next';
    time += 59_999;
    assert.equal((await storage.list()).revision, github.branches().main);
    time += 1;
    assert.equal((await storage.list()).revision, github.branches().next);
  });

  test('a missing branch is an error with its name, after one more question', async () => {
    github.defaultBranch = 'gone';
    const { code, message } = await failure(storageOf(github).list());
    assert.equal(code, 'not_found');
    assert.match(message, /no branch gone/);
    assert.equal(github.requests.filter(({ path }) => path === '/repos/Acme/site').length, 2);
    assert.match((await failure(storageOf(github, { branch: 'a/b' }).list())).message, /no branch a\/b/);
  });

  test('the option names another branch', async () => {
    github.git('branch', 'release/2', 'main');
    const commit = github.commit({ 'routes/index.json': '2' }, 'release/2');
    const { revision, files } = await storageOf(github, { branch: 'release/2' }).list();
    assert.deepEqual([revision, files['routes/index.json']!.text], [commit, '2']);
  });

  test('a renamed repository is followed, and a redirect to another host gets no request', async () => {
    let strangers = 0;
    const stranger = createServer((_, response) => {
      strangers++;
      response.end('{}');
    });
    await new Promise<void>((resolve) => stranger.listen(0, '127.0.0.1', resolve));
    github.renamed.set('Acme/site', `${OWNER}/website`);
    github.repository = `${OWNER}/website`;
    assert.deepEqual(texts((await storageOf(github).list()).files), SITE);
    const elsewhere = `http://127.0.0.1:${(stranger.address() as AddressInfo).port}/repos/Acme/site`;
    for (const location of [elsewhere, elsewhere.replace('http:', ''), 'http://[', 'https://127.0.0.1/x']) {
      github.fault = () => problem(301, 'Moved Permanently', { location });
      const { code, message } = await failure(storageOf(github).list());
      assert.equal(code, 'redirected', message);
    }
    github.fault = () => problem(301, 'Moved Permanently', { location: '/repositories/1' });
    assert.match((await failure(storageOf(github).list())).message, /more than 3 times/);
    assert.equal(strangers, 0);
    stranger.close();
  });
});

describe('the history on GitHub', () => {
  let github: FakeGitHub;
  beforeEach(async () => void (github = await githubWith()));
  afterEach(() => {
    github.stop();
    assert.deepEqual(github.violations, []);
  });

  test('it lists the commits that touch the directory, the newest first, and each can be read', async () => {
    const first = github.commit({ 'sites/a/site.json': '1' }, 'main', 'Begin\n\nwith a body');
    github.commit({ 'README.md': 'x' });
    const second = github.commit({ 'sites/a/site.json': '2', 'sites/a/routes/a.json': '{}' }, 'main', 'Second');
    const storage = storageOf(github, { directory: 'sites/a' });
    const by = { author: 'By Hand', at: '2026-01-02T03:04:05Z' };
    const all = [
      { revision: second, message: 'Second', ...by },
      { revision: first, message: 'Begin\n\nwith a body', ...by },
    ];
    const utc = (revisions: { at: string }[]) => revisions.map((one) => ({ ...one, at: new Date(one.at).toISOString().replace('.000', '') }));
    assert.deepEqual(utc(await storage.history(10)), all);
    assert.deepEqual(utc(await storage.history(1)), all.slice(0, 1));
    assert.deepEqual([await storage.history(0), await storage.history(-1), await storage.history(NaN)], [[], [], []]);
    assert.deepEqual(texts(await storage.at(second)), { 'site.json': '2', 'routes/a.json': '{}' });
    assert.deepEqual(texts(await storage.at(first)), { 'site.json': '1' });
    assert.deepEqual(await storage.at(github.git('rev-list', '--max-parents=0', 'main')), {});
  });

  test('it has at most 200 revisions', async () => {
    github.commitMany(200);
    const storage = storageOf(github);
    const numbers = async (limit: number) => (await storage.history(limit)).map(({ message }) => Number(message.slice(1)) || 0);
    const expected = (length: number) => Array.from({ length }, (_, n) => 200 - n);
    assert.deepEqual(await numbers(100), expected(100));
    assert.deepEqual(await numbers(150), expected(150));
    assert.deepEqual(await numbers(199), expected(199));
    assert.deepEqual(await numbers(200), expected(200));
    assert.deepEqual(await numbers(201), expected(200));
  });

  test('a revision that does not exist is an error', async () => {
    const storage = storageOf(github);
    for (const revision of ['', 'main', 'f'.repeat(40), '../../../user', 'F'.repeat(40), `${github.branches().main}0`]) {
      const { code, message } = await failure(storage.at(revision));
      assert.equal(code, 'revision_not_found', message);
    }
  });
});
