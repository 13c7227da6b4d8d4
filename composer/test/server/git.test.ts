import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { fileStorage } from '../../src/server/files.js';
import { HISTORY_MAX } from '../../src/server/limits.js';
import { AUTHOR, FIVE, SMALL, after, change, etagOf, page, saveOf, smallSite, temporaryDirectory, tree, write } from './site.js';

const git = (directory: string, ...words: string[]) => execFileSync('git', ['-C', directory, ...words], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
const ME = ['-c', 'user.name=Me', '-c', 'user.email=me@example.com'];

/** A repository with a site in the directory `site`. */
function repository(): { top: string; directory: string } {
  const top = temporaryDirectory();
  const directory = path.join(top, 'site');
  write(directory, SMALL);
  writeFileSync(path.join(top, 'README.md'), 'one\n');
  git(top, 'init', '-q', '-b', 'main');
  git(top, 'add', '.');
  git(top, ...ME, 'commit', '-qm', 'Begin');
  return { top, directory };
}

const texts = (files: Record<string, { text: string }>) => Object.fromEntries(Object.entries(files).map(([name, { text }]) => [name, text]));
const changedFiles = (top: string, revision = 'HEAD') => git(top, 'show', '--format=', '--name-status', '--no-renames', revision).trim().split('\n').sort();

test('a save is one commit with its message, its author and only its files', async () => {
  const { top, directory } = repository();
  // Another staged change, and one that is not staged.
  writeFileSync(path.join(top, 'README.md'), 'two\n');
  git(top, 'add', 'README.md');
  write(directory, { 'routes/index.json': page('/', 'by hand'), 'routes/untracked.json': page('/untracked') });
  const message = 'Change "pages"\n\n# no comment\n-- and more';
  const saved = await fileStorage({ directory, commit: true }).save({ ...FIVE, message, author: { name: 'Änna -x', email: 'anna@example.com' } });
  assert.equal(saved.kind, 'saved');
  assert.equal(git(top, 'log', '-1', '--format=%an|%ae|%cn|%B').trim(), `Änna -x|anna@example.com|Änna -x|${message}`);
  assert.deepEqual(changedFiles(top), ['A\tsite/routes/more/d.json', 'D\tsite/routes/shop/c.json', 'M\tsite/routes/a.json', 'M\tsite/routes/b.json', 'M\tsite/site.json']);
  assert.deepEqual(git(top, 'status', '--porcelain').trimEnd().split('\n').sort(), [' M site/routes/index.json', '?? site/routes/untracked.json', 'M  README.md']);
  assert.equal(git(top, 'rev-list', '--count', 'HEAD').trim(), '2');
});

test('without commit a save makes no commit', async () => {
  const { top, directory } = repository();
  await fileStorage({ directory }).save(FIVE);
  assert.equal(git(top, 'rev-list', '--count', 'HEAD').trim(), '1');
});

test('files that git does not know are added, and their removal is no commit', async () => {
  const { top, directory } = repository();
  const storage = fileStorage({ directory, commit: true });
  write(directory, { 'routes/x.json': 'x', 'routes/y.json': 'y' });
  assert.equal((await storage.save(saveOf(change('routes/x.json', null, 'x')))).kind, 'saved');
  assert.equal(git(top, 'rev-list', '--count', 'HEAD').trim(), '1');
  assert.equal((await storage.save(saveOf(change('routes/y.json', 'z', 'y')))).kind, 'saved');
  assert.deepEqual(changedFiles(top), ['A\tsite/routes/y.json']);
  // The names of these files are patterns for git. They match this one.
  write(directory, { 'routes/index.json': page('/', 'by hand') });
  assert.equal((await storage.save(saveOf(change('routes/[y].json', '1', null), change('routes/*.json', '1', null)))).kind, 'saved');
  assert.deepEqual(changedFiles(top), ['A\tsite/routes/*.json', 'A\tsite/routes/[y].json']);
});

test('a save is the first commit of a repository', async () => {
  const directory = smallSite();
  git(directory, 'init', '-q', '-b', 'main');
  const storage = fileStorage({ directory, commit: true });
  assert.deepEqual(await storage.history!(10), []);
  await storage.save(FIVE);
  assert.equal((await storage.history!(10)).length, 1);
});

test('a commit that git refuses leaves the files and the index as they were', async () => {
  const { top, directory } = repository();
  const storage = fileStorage({ directory, commit: true });
  const hook = path.join(top, '.git/hooks/pre-commit');
  mkdirSync(path.dirname(hook), { recursive: true });
  writeFileSync(hook, '#!/bin/sh\nexit 1\n');
  chmodSync(hook, 0o755);
  await assert.rejects(storage.save(FIVE), { code: 'git_failed' });
  assert.deepEqual(tree(directory), Object.fromEntries(Object.entries(SMALL).sort()));
  assert.equal(git(top, 'status', '--porcelain'), '');
  // A hook that changes a file: the present file stays, and no text is lost.
  writeFileSync(hook, `#!/bin/sh\necho by-hook > site/routes/a.json\nexit 1\n`);
  await assert.rejects(storage.save(FIVE), { code: 'git_failed', message: /without a commit/ });
  assert.deepEqual(texts((await storage.list()).files), { ...after(SMALL, FIVE), 'routes/a.json': 'by-hook\n' });
});

test('a lock of git is a named error', async () => {
  const { top, directory } = repository();
  writeFileSync(path.join(top, '.git/index.lock'), '');
  await assert.rejects(fileStorage({ directory, commit: true }).save(FIVE), { code: 'git_failed' });
  assert.deepEqual(tree(directory), Object.fromEntries(Object.entries(SMALL).sort()));
});

test('a save whose process died before its commit is committed by the next listing', async () => {
  const { top, directory } = repository();
  const [a, text] = [SMALL['routes/a.json']!, page('/a', 'new')];
  const step = { path: 'routes/a.json', temporary: 'routes/.parallax-new-0', old: etagOf(a), next: etagOf(text) };
  const journal = JSON.stringify({ version: 1, steps: [step], commit: { message: 'Change a', author: AUTHOR } });
  write(directory, { '.parallax-journal': `${journal}\n${etagOf(journal)}\n`, 'routes/a.json': text });
  await fileStorage({ directory, commit: true }).list();
  assert.equal(git(top, 'log', '-1', '--format=%an %s').trim(), 'Anna Example Change a');
  assert.equal(git(top, 'status', '--porcelain'), '');
});

test('the history has the commits of the site, and the files of each', async () => {
  const { top, directory } = repository();
  const storage = fileStorage({ directory, commit: true });
  await storage.save(FIVE);
  writeFileSync(path.join(top, 'README.md'), 'three\n');
  git(top, ...ME, 'commit', '-qam', 'Outside of the site');
  const history = await storage.history!(10);
  assert.deepEqual(history.map(({ message, author }) => [message, author]), [['Change pages', AUTHOR.name], ['Begin', 'Me']]);
  assert.ok(history.every(({ at, revision }) => !Number.isNaN(Date.parse(at)) && /^[0-9a-f]{40}$/.test(revision)));
  assert.deepEqual((await storage.history!(1)).map(({ message }) => message), ['Change pages']);
  assert.equal((await storage.history!(Number.NaN)).length, 1);
  assert.deepEqual(texts(await storage.at!(history[0]!.revision)), after(SMALL, FIVE));
  const old = await storage.at!(history[1]!.revision);
  assert.deepEqual(texts(old), SMALL);
  assert.equal(old['site.json']!.etag, etagOf(SMALL['site.json']!));
  const tree = git(top, 'rev-parse', 'HEAD^{tree}').trim();
  const other = git(top, ...ME, 'commit-tree', tree, '-m', 'Not in the history').trim();
  for (const revision of ['', 'HEAD', '--all', 'a'.repeat(40), history[0]!.revision.slice(0, 10), tree, other]) {
    await assert.rejects(storage.at!(revision), { code: 'revision_not_found' }, revision);
  }
});

test('an answer about the history is bounded', async () => {
  const { top, directory } = repository();
  const commits = Array.from({ length: HISTORY_MAX + 1 }, (_, n) =>
    `commit refs/heads/main\ncommitter A <a@example.com> ${1_700_000_000 + n} +0000\ndata 2\nm\n${n === 0 ? 'from refs/heads/main^0\n' : ''}M 644 inline site/routes/a.json\ndata ${String(n).length}\n${n}\n`);
  execFileSync('git', ['-C', top, 'fast-import', '--quiet'], { input: commits.join('') });
  assert.equal((await fileStorage({ directory }).history!(1_000_000)).length, HISTORY_MAX);
});

test('a history with links and files that are not in UTF-8 is read without them, or refused', async () => {
  const { top, directory } = repository();
  execFileSync('ln', ['-s', '/etc/passwd', path.join(directory, 'routes/link.json')]);
  git(top, 'add', '.');
  git(top, ...ME, 'commit', '-qm', 'Link');
  const storage = fileStorage({ directory });
  assert.deepEqual(texts(await storage.at!((await storage.history!(1))[0]!.revision)), SMALL);
  rmSync(path.join(directory, 'routes/link.json'));
  writeFileSync(path.join(directory, 'routes/bad.json'), Buffer.from([0xff]));
  git(top, 'add', '-A');
  git(top, ...ME, 'commit', '-qm', 'Bad');
  await assert.rejects(storage.at!((await storage.history!(1))[0]!.revision), { code: 'not_utf8' });
});

test('without a work tree there is no history, and commit is refused', () => {
  const directory = smallSite();
  const storage = fileStorage({ directory });
  assert.equal(storage.history, undefined);
  assert.equal(storage.at, undefined);
  assert.throws(() => fileStorage({ directory, commit: true }), /not in a git work tree/);
});

test('variables of git in the environment do not lead to another repository', async () => {
  const [{ directory }, other] = [repository(), repository()];
  process.env.GIT_DIR = path.join(other.top, '.git');
  try {
    await fileStorage({ directory, commit: true }).save(FIVE);
  } finally {
    delete process.env.GIT_DIR;
  }
  assert.equal(git(other.top, 'rev-list', '--count', 'HEAD').trim(), '1');
  assert.equal(git(directory, 'rev-list', '--count', 'HEAD').trim(), '2');
});
