import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import path from 'node:path';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { type FakeGitHub, TOKEN, problem } from './fake-github.js';
import {
  ADA,
  HOME,
  NOW,
  OTHER,
  SITE,
  assertConsistent,
  change,
  edit,
  etagOf,
  failure,
  githubWith,
  isMutation,
  saveOf,
  storageOf,
} from './site.js';

const BRANCH = 'composer/ada-lovelace-20260105-102030';
const mutations = (github: FakeGitHub) =>
  github.requests.filter(isMutation).map(({ method, path }) => `${method} ${path.replace('/repos/Acme/site', '')}`);
const objects = (github: FakeGitHub) => github.git('count-objects', '-v') + JSON.stringify(github.branches());

describe('a save on GitHub', () => {
  let github: FakeGitHub;
  beforeEach(async () => void (github = await githubWith()));
  afterEach(() => {
    assertConsistent(github);
    github.stop();
  });

  test('it is one commit on a new branch with a pull request', async () => {
    const main = github.branches().main!;
    const changes = [
      edit('{ "new": "ü" }\r\n'),
      change('routes/a/b.json', '{}', null),
      change('tests/front.json', null, SITE['tests/front.json']!),
    ];
    const message = 'Change the home page\n\nFor the spring.';
    const saved = await storageOf(github).save({ ...saveOf(...changes), base: main, message });
    assert.deepEqual(saved, { kind: 'saved', revision: github.branches()[BRANCH], url: `${github.url}/Acme/site/pull/1` });
    assert.equal(github.branches().main, main);
    const { 'tests/front.json': _, ...kept } = { ...SITE, ...OTHER };
    assert.deepEqual(github.files(BRANCH), { ...kept, 'routes/index.json': '{ "new": "ü" }\r\n', 'routes/a/b.json': '{}' });
    const format = '%P|%an|%ae|%at|%cn|%ce|%ct|%B';
    const ada = `Ada Lovelace|ada@acme.example|${Math.floor(NOW / 1000)}`;
    assert.equal(github.git('show', '--no-patch', `--format=${format}`, BRANCH).trim(), `${main}|${ada}|${ada}|${message}`);
    const body = `${message}\n\nSaved in the composer by Ada Lovelace.`;
    assert.deepEqual(github.pulls, [
      {
        number: 1,
        title: 'Change the home page',
        body,
        head: BRANCH,
        sha: github.branches()[BRANCH],
        base: 'main',
        state: 'open',
        mergedAt: null,
      },
    ]);
    assert.deepEqual(mutations(github), ['POST /git/trees', 'POST /git/commits', 'POST /git/refs', 'POST /pulls']);
  });

  test('it is below the directory, and keeps the mode of a file', async () => {
    github.commit({ 'sites/a/routes/index.json': `+x${HOME}` });
    await storageOf(github, { directory: 'sites/a' }).save(saveOf(edit('{}'), change('site.json', '{}', null)));
    const listed = github
      .git('ls-tree', '-r', BRANCH, 'sites')
      .split('\n')
      .map((line) => line.replace(/ blob \w+/, ''));
    assert.deepEqual(listed, ['100755\tsites/a/routes/index.json', '100644\tsites/a/site.json']);
  });

  test('a file that differs is a conflict with its present state, and nothing is made', async () => {
    const storage = storageOf(github);
    const { revision } = await storage.list();
    const changes = [
      edit('mine'),
      change('audiences.json', 'mine', '{}'),
      change('tests/front.json', null, '[]'),
      change('content/articles.json', 'mine', null),
      change('routes/new.json', 'mine', null),
      change('routes/never.json', null, 'was here'),
    ];
    const head = github.commit({ 'routes/index.json': 'theirs', 'tests/front.json': null, 'routes/new.json': 'theirs too' });
    const before = objects(github);
    const files = {
      'routes/index.json': { text: 'theirs', etag: etagOf('theirs') },
      'tests/front.json': null,
      'content/articles.json': { text: '{"items":[]}\n', etag: etagOf('{"items":[]}\n') },
      'routes/new.json': { text: 'theirs too', etag: etagOf('theirs too') },
      'routes/never.json': null,
    };
    assert.deepEqual(await storage.save({ ...saveOf(...changes), base: revision }), { kind: 'conflict', revision: head, files });
    assert.deepEqual(mutations(github), []);
    assert.equal(objects(github), before);
  });

  test('other files may change meanwhile: the parent is the new head', async () => {
    const storage = storageOf(github);
    const { revision } = await storage.list();
    const head = github.commit({ 'routes/b.json': 'theirs', 'README.md': 'theirs' });
    await storage.save({ ...saveOf(edit('mine')), base: revision });
    assert.equal(github.git('rev-parse', `${BRANCH}^`), head);
    assert.equal(github.files(BRANCH)['routes/b.json'], 'theirs');
  });

  test('the branch moves between the check and the commit, and the save has its own parent', async () => {
    const main = github.branches().main!;
    github.fault = ({ path, method }) =>
      method === 'POST' && path.endsWith('/trees') ? () => void github.commit({ 'routes/index.json': 'theirs' }) : undefined;
    const saved = await storageOf(github).save(saveOf(edit('mine')));
    assert.equal(saved.kind, 'saved');
    assert.equal(github.git('rev-parse', `${BRANCH}^`), main);
    assert.equal(github.files('main')['routes/index.json'], 'theirs');
    // git finds the conflict in the merge of the pull request.
    assert.equal(github.merge(github.pulls[0]!), false);
  });

  test('a save that changes nothing makes nothing', async () => {
    const { revision } = await storageOf(github).list();
    assert.deepEqual(await storageOf(github).save(saveOf(edit(HOME))), { kind: 'saved', revision });
    assert.deepEqual(mutations(github), []);
  });

  test('a branch that exists gets another suffix, also with the same commit', async () => {
    const storage = storageOf(github);
    const first = await storage.save(saveOf(edit('1')));
    const second = await storage.save(saveOf(edit('2')));
    const third = await storage.save(saveOf(edit('1')));
    assert.ok(first.kind === 'saved' && second.kind === 'saved' && third.kind === 'saved');
    assert.equal(first.revision, third.revision);
    assert.equal(new Set(github.pulls.map(({ head }) => head)).size, 3);
    for (const { head } of github.pulls.slice(1)) assert.match(head, new RegExp(`^${BRANCH}-[0-9a-f]{8}$`));
    github.fault = ({ path, method }) =>
      method === 'POST' && path.endsWith('/git/refs') ? problem(422, 'Reference already exists') : undefined;
    const { code, message } = await failure(storage.save(saveOf(edit('3'))));
    assert.equal(code, 'refused');
    assert.ok(message.includes('Reference already exists') || message.includes('names are taken'), message);
  });

  test('the name of the branch is safe for any name of a user', async () => {
    const names: [string, string][] = [
      ['Zoë  Müller-Ångström', 'zoe-muller-angstrom'],
      ['../../main', 'main'],
      ['山田 太郎', 'user'],
      ['a'.repeat(39) + ' b', 'a'.repeat(39)],
      ['<script>.lock~^:?*[\\@{', 'script-lock'],
      ['-', 'user'],
    ];
    for (const [n, [name, safe]] of names.entries()) {
      const author = { ...ADA, name: name === '-' ? '-x-'.replace('x', '\u4e00') : name };
      const saved = await storageOf(github, { now: () => NOW + n * 1000 }).save({ ...saveOf(edit(`${n}`)), author });
      assert.equal(saved.kind, 'saved');
      assert.match(github.pulls.at(-1)!.head, new RegExp(`^composer/${safe}-20260105-10203${n}$`));
    }
  });

  test('the author has no characters of a commit, and the title fits', async () => {
    await storageOf(github).save({
      ...saveOf(edit('1')),
      message: `${'ä'.repeat(300)}\nmore`,
      author: { name: 'A <b>\nC', email: '<a@b.example>' },
    });
    const { head, title } = github.pulls[0]!;
    assert.equal(github.git('show', '--no-patch', '--format=%an|%ae', head), 'A b C|a@b.example');
    assert.equal(title, `${'ä'.repeat(199)}…`);
  });

  test('an invalid save is an error before any request', async () => {
    const saves: [string, Partial<ReturnType<typeof saveOf>>][] = [
      ['invalid_save', { changes: [] }],
      ['invalid_save', { changes: [edit('1'), edit('2')] }],
      ['invalid_save', { changes: [change('routes/x.json', null, null)] }],
      ['invalid_save', { message: ' \n' }],
      ['invalid_save', { message: 'a\0b' }],
      ['invalid_save', { author: { name: ' <>', email: 'a@b' } }],
      ['invalid_save', { author: { name: 'A', email: '' } }],
      ['not_utf8', { changes: [edit('\ud800')] }],
    ];
    const paths = [
      'README.md',
      'routes/a.md',
      'routes//a.json',
      'routes/../site.json',
      '/site.json',
      'routes/.a.json',
      'routes/git~1/a.json',
      'routes/\u200c.git/a.json',
      'routes/a\\b.json',
      'routes/a\n.json',
      'routes/a.json/b.json',
      'routes/\ud800.json',
      'site.json/',
      'sites.json',
      '',
      'routes/c:/a.json',
      '.git/config',
    ];
    for (const path of paths) saves.push(['invalid_path', { changes: [{ path, text: '{}', etag: null }] }]);
    for (const [code, members] of saves) {
      const error = await failure(storageOf(github).save({ ...saveOf(edit('1')), ...members }));
      assert.equal(error.code, code, `${JSON.stringify(members)}: ${error.message}`);
    }
    assert.equal(github.requests.length, 0);
  });

  test('a link, a directory or a file in the way is an error, and nothing is made', async () => {
    github.commit({
      'routes/link.json': '->index.json',
      'routes/dir.json/x.txt': '',
      content: null,
      'content/articles.json': null,
      'tests/front.json': null,
    });
    github.commit({ content: 'a file' });
    for (const path of ['routes/link.json', 'routes/dir.json', 'content/a.json']) {
      assert.equal((await failure(storageOf(github).save(saveOf(change(path, '{}', null))))).code, 'not_a_file');
    }
    assert.deepEqual(mutations(github), []);
  });
});

describe('two savers at once', () => {
  test('each of two processes gets its own pull request, and no change is lost', { timeout: 120_000 }, async () => {
    const github = await githubWith();
    const code = `
      const { githubStorage } = await import('@parallax/composer/server');
      const [apiUrl, token, now, saves] = process.argv.slice(1);
      const storage = githubStorage({ repository: 'Acme/site', token, apiUrl, now: () => Number(now) });
      const results = [];
      for (const save of JSON.parse(saves)) results.push(await storage.save(save));
      console.log(JSON.stringify(results));`;
    const processOf = (saves: object[]) =>
      new Promise<any[]>((resolve, reject) => {
        const words = ['--input-type=module', '-e', code, github.url, TOKEN, String(NOW), JSON.stringify(saves)];
        const child = spawn(process.execPath, words, {
          cwd: path.dirname(fileURLToPath(import.meta.url)),
          stdio: ['ignore', 'pipe', 'inherit'],
        });
        let output = '';
        child.stdout.on('data', (part) => (output += part));
        child.on('close', (status) => (status === 0 ? resolve(JSON.parse(output)) : reject(new Error(`status ${status}`))));
      });
    const rounds = 6;
    const savesOf = (mark: string) =>
      Array.from({ length: rounds }, (_, n): object =>
        saveOf(edit(`${n % 2 ? mark : 'same'} ${n}`), change(`routes/${mark}.json`, `${n}`, null)),
      );
    const results = (await Promise.all([processOf(savesOf('a')), processOf(savesOf('b')), processOf(savesOf('b'))])).flat();
    assert.equal(new Set(results.map(({ url }) => url)).size, 3 * rounds);
    for (const [n, { kind, revision, url }] of results.entries()) {
      assert.equal(kind, 'saved');
      const pull = github.pulls.find(({ number }) => url.endsWith(`/pull/${number}`))!;
      assert.equal(github.branches()[pull.head], revision);
      assert.equal(github.files(revision)['routes/index.json'], `${n % 2 ? (n < rounds ? 'a' : 'b') : 'same'} ${n % rounds}`);
    }
    assertConsistent(github);
    github.stop();
  });
});

test('only the changed files are in the commit', async () => {
  const github = await githubWith();
  const saved = await storageOf(github).save(saveOf(edit('1'), change('audiences.json', '{}', '{}')));
  assert.equal(github.git('diff-tree', '-r', '--name-only', '--no-commit-id', saved.revision), 'routes/index.json');
  github.stop();
});
