import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Change, githubStorage } from '../../src/server/index.js';
import { TOKEN } from './fake-github.js';
import { ADA, HOME, SITE, assertConsistent, change, edit, etagOf, failure, githubWith, saveOf, storageOf } from './site.js';

const MIB = 1 << 20;

test('a site of 2,000 files is listed and saved, and one more is an error', async () => {
  const github = await githubWith();
  const fill = (count: number) =>
    github.commit(Object.fromEntries(Array.from({ length: count - Object.keys(SITE).length }, (_, n) => [`routes/p${n}.json`, '{}'])));
  const storage = storageOf(github);
  fill(1_999);
  assert.equal(Object.keys((await storage.list()).files).length, 1_999);
  const added = change('routes/added.json', '{}', null);
  assert.equal((await storage.save(saveOf(added))).kind, 'saved');
  fill(2_000);
  assert.equal(Object.keys((await storage.list()).files).length, 2_000);
  assert.equal((await failure(storage.save(saveOf(added)))).code, 'too_many_files');
  // A removal makes room.
  assert.equal((await storage.save(saveOf(added, change('tests/front.json', null, '[]')))).kind, 'saved');
  fill(2_001);
  assert.match((await failure(storage.list())).message, /has 2001 files or more, and at most 2000/);
  assertConsistent(github);
  github.stop();
});

test('a file of 8 MiB is listed and saved, and a larger one is an error', async () => {
  const github = await githubWith();
  const storage = storageOf(github);
  for (const bytes of [8 * MIB - 1, 8 * MIB, 8 * MIB + 1]) {
    const text = `ä${'a'.repeat(bytes - 2)}`;
    github.commit({ 'content/big.json': text });
    const save = () => storage.save(saveOf(edit(text)));
    if (bytes <= 8 * MIB) {
      assert.equal((await storage.list()).files['content/big.json']!.etag, etagOf(text));
      assert.equal(github.git('cat-file', '-s', `${(await save()).revision}:routes/index.json`), String(bytes));
    } else {
      assert.match((await failure(storage.list())).message, /^content\/big\.json has 8388609 bytes/);
      assert.equal((await failure(save())).code, 'file_too_large');
    }
  }
  github.stop();
});

test('a save has at most 8 MiB of texts', async () => {
  const github = await githubWith();
  for (const bytes of [8 * MIB - 1, 8 * MIB, 8 * MIB + 1]) {
    const texts = ['a'.repeat(4 * MIB), 'b'.repeat(bytes - 4 * MIB)];
    const saved = storageOf(github).save(saveOf(edit(texts[0]!), change('routes/b.json', texts[1]!, null)));
    if (bytes <= 8 * MIB) assert.equal((await saved).kind, 'saved');
    else assert.equal((await failure(saved)).code, 'save_too_large');
  }
  assertConsistent(github);
  github.stop();
});

test('a site of 64 MiB is listed and saved, and a larger one is an error', async () => {
  const github = await githubWith();
  const storage = storageOf(github);
  const big = 'a'.repeat(8 * MIB);
  const rest = Object.entries(SITE).reduce((sum, [path, text]) => sum + (path === 'tests/front.json' ? 0 : Buffer.byteLength(text)), 0);
  const fill = (bytes: number) =>
    github.commit({ 'tests/front.json': 'b'.repeat(8 * MIB - rest - 1000), 'tests/fill.json': 'c'.repeat(1000 + bytes) });
  github.commit(Object.fromEntries(Array.from({ length: 7 }, (_, n) => [`content/big${n}.json`, big])));
  const longer = edit(`${HOME} `);
  fill(-1);
  assert.equal(Object.keys((await storage.list()).files).length, Object.keys(SITE).length + 8);
  assert.equal((await storage.save(saveOf(longer))).kind, 'saved');
  fill(0);
  await storage.list();
  assert.equal((await failure(storage.save(saveOf(longer)))).code, 'site_too_large');
  fill(1);
  assert.match((await failure(storage.list())).message, /have 67108865 bytes or more, and at most 67108864/);
  github.stop();
});

test('a save has at most 500 changes, 4,096 bytes of message and paths of 200 bytes', async () => {
  const github = await githubWith();
  const storage = storageOf(github);
  const changes = (count: number): Change[] => Array.from({ length: count }, (_, n) => change(`routes/n${n}.json`, '{}', null));
  const pathOf = (bytes: number) => `routes/${'ä'.repeat(50)}${'a'.repeat(bytes - 'routes/.json'.length - 100)}.json`;
  const save = saveOf(edit('1'));
  for (const [n, code] of [
    [-1, null],
    [0, null],
    [1, 'error'],
  ] as const) {
    const saves: [string, typeof save][] = [
      ['too_many_changes', { ...save, changes: changes(500 + n) }],
      ['message_too_long', { ...save, message: `ä${'a'.repeat(4_094 + n)}` }],
      ['invalid_path', { ...save, changes: [change(pathOf(200 + n), '{}', null)] }],
    ];
    for (const [name, one] of saves) {
      const saved = storage.save({ ...one, author: ADA });
      if (code) assert.equal((await failure(saved)).code, name);
      else assert.equal((await saved).kind, 'saved');
    }
  }
  assertConsistent(github);
  github.stop();
});

test('a call has at most 2,500 requests', async () => {
  const text = '{}';
  const [blob, tree] = ['9e26dfeeb6e641a33dae4961196235bdb965b21b', 'a'.repeat(40)];
  for (const requests of [2_499, 2_500, 2_501]) {
    // The repository, the branch, two listings of the root and of `routes`, and a blob. The rest are directories.
    const directories = Array.from({ length: requests - 7 }, (_, n) => ({ path: `d${n}`, mode: '040000', type: 'tree', sha: tree }));
    const root = [
      { path: 'routes', mode: '040000', type: 'tree', sha: 'b'.repeat(40) },
      { path: 'site.json', mode: '100644', type: 'blob', sha: blob, size: 2 },
    ];
    const treeOf = (entries: object[], truncated: boolean) => ({ sha: tree, tree: truncated ? [] : entries, truncated });
    let count = 0;
    const fetch = (async (url: URL) => {
      count++;
      const place = url.pathname.replace('/repos/Acme/site', '');
      const isRecursive = url.search !== '';
      const answers: Record<string, object> = {
        '': { default_branch: 'main', owner: { login: 'Acme' } },
        '/branches/main': { name: 'main', commit: { sha: blob, commit: { tree: { sha: 'c'.repeat(40) } } } },
        [`/git/trees/${'c'.repeat(40)}`]: treeOf(root, isRecursive),
        [`/git/trees/${'b'.repeat(40)}`]: treeOf(directories, isRecursive),
        [`/git/trees/${tree}`]: treeOf([], false),
        [`/git/blobs/${blob}`]: { content: btoa(text) },
      };
      return Response.json(answers[place]);
    }) as typeof globalThis.fetch;
    const listed = githubStorage({ repository: 'Acme/site', token: TOKEN, fetch }).list();
    if (requests <= 2_500) assert.deepEqual((await listed).files, { 'site.json': { text, etag: etagOf(text) } });
    else assert.equal((await failure(listed)).code, 'request_limit');
    assert.equal(count, Math.min(requests, 2_500));
  }
});
