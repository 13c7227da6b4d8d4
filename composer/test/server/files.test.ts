import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chmodSync, lstatSync, mkdirSync, readFileSync, statSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { StorageError } from '../../src/server/errors.js';
import { fileStorage } from '../../src/server/files.js';
import { CHANGES_MAX, FILES_MAX, FILE_BYTES_MAX, MESSAGE_BYTES_MAX, PATH_BYTES_MAX, SITE_BYTES_MAX, USER_BYTES_MAX } from '../../src/server/limits.js';
import { FIVE, SMALL, after, change, ended, etagOf, page, parallax, saveOf, script, smallSite, temporaryDirectory, tree, write } from './site.js';

const hasCode = (code: string) => (error: unknown) => {
  assert.ok(error instanceof StorageError, String(error));
  assert.equal(error.code, code, error.message);
  return true;
};
const texts = (files: Record<string, { text: string } | null>) => Object.fromEntries(Object.entries(files).map(([name, file]) => [name, file?.text]));

test('a listing has all files of a site and nothing else', async () => {
  const directory = smallSite();
  write(directory, { 'tests/t.json': '{}', 'content/x/y.json': '\ufeff[]', 'package.json': '{}', 'README.md': '', '.schema/site.json': '{}', 'routes/.hidden.json': '', 'routes/a.txt': '', 'other/a.json': '' });
  const { revision, files } = await fileStorage({ directory }).list();
  assert.deepEqual(texts(files), { ...SMALL, 'tests/t.json': '{}', 'content/x/y.json': '\ufeff[]' });
  assert.equal(files['content/x/y.json']!.etag, etagOf('\ufeff[]'));
  assert.match(revision, /^[0-9a-f]{64}$/);
  assert.deepEqual(Object.keys(tree(directory)).filter((name) => name.startsWith('.parallax')), []);
});

test('a save changes, adds and removes files', async () => {
  const directory = smallSite();
  const storage = fileStorage({ directory });
  const before = await storage.list();
  chmodSync(path.join(directory, 'routes/a.json'), 0o640);
  const saved = await storage.save(FIVE);
  assert.equal(saved.kind, 'saved');
  assert.notEqual(saved.revision, before.revision);
  assert.deepEqual(tree(directory), after(SMALL, FIVE));
  assert.equal((await storage.list()).revision, saved.revision);
  assert.equal(statSync(path.join(directory, 'routes/a.json')).mode & 0o777, 0o640);
  parallax('compile', directory, '-o', path.join(temporaryDirectory(), 'x.snapshot'));
});

test('a save of a present text writes nothing', async () => {
  const directory = smallSite();
  const storage = fileStorage({ directory });
  const { ino } = statSync(path.join(directory, 'routes/a.json'));
  const saved = await storage.save(saveOf(change('routes/a.json', SMALL['routes/a.json']!, SMALL['routes/a.json']!)));
  assert.deepEqual(saved, { kind: 'saved', revision: (await storage.list()).revision });
  assert.equal(statSync(path.join(directory, 'routes/a.json')).ino, ino);
});

test('a save with a wrong ETag writes nothing and returns the present files', async () => {
  const directory = smallSite();
  const storage = fileStorage({ directory });
  const { revision, files } = await storage.list();
  const wrong = [
    change('routes/a.json', 'other', 'another text'),
    change('routes/b.json', 'other', SMALL['routes/b.json']!),
    change('routes/index.json', 'other', null),
    change('routes/gone.json', 'other', 'a removed text'),
    change('routes/shop/c.json', null, 'another text'),
  ];
  const conflict = await storage.save(saveOf(...wrong));
  const expected = { 'routes/a.json': files['routes/a.json'], 'routes/index.json': files['routes/index.json'], 'routes/gone.json': null, 'routes/shop/c.json': files['routes/shop/c.json'] };
  assert.deepEqual(conflict, { kind: 'conflict', revision, files: expected });
  assert.deepEqual(tree(directory), Object.fromEntries(Object.entries(SMALL).sort()));
});

test('hostile paths are refused', async () => {
  const directory = smallSite();
  const storage = fileStorage({ directory });
  const paths = [
    '', '.', '..', '/etc/x.json', '../x.json', 'routes/../../x.json', 'routes/../site.json', 'routes/./a.json', 'routes//a.json', 'routes/', 'routes/a', 'routes\\a.json',
    'routes/..\\x.json', 'routes/a\0.json', 'C:/x.json', 'routes/C:/x.json', 'routes/a.json:x.json', 'routes/.a.json', 'routes/.git/a.json', '.parallax-journal', 'package.json', 'other/a.json',
    'routes/a.json/b.json', 'routes/\ud800.json', 'routes/a\n.json', 'routes/a\u200bb.json', 'routes/git~1/a.json', '__proto__', 'constructor.json', 'Routes/a.json', 'site.json/', `routes/${'a'.repeat(PATH_BYTES_MAX)}.json`,
  ];
  for (const name of paths) await assert.rejects(storage.save(saveOf(change(name, '{}', null))), hasCode('invalid_path'), JSON.stringify(name));
  for (const name of ['routes/__proto__.json', 'routes/[city].json', 'routes/äöü.json', 'routes/a b.json']) {
    assert.equal((await storage.save(saveOf(change(name, page('/x'), null)))).kind, 'saved', name);
  }
  assert.equal(Object.keys((await storage.list()).files).length, Object.keys(SMALL).length + 4);
});

test('a save with another fault is refused', async () => {
  const storage = fileStorage({ directory: smallSite() });
  const good = change('routes/x.json', '{}', null);
  const refused = (save: object, code = 'invalid_save') => assert.rejects(storage.save({ ...saveOf(good), ...save }), hasCode(code));
  await refused({ changes: [] });
  await refused({ changes: [good, good] });
  await refused({ changes: [{ ...good, etag: 'abc' }] });
  await refused({ changes: [{ ...good, text: null }] });
  await refused({ changes: [{ ...good, text: '\ud800' }] }, 'not_utf8');
  await refused({ message: ' \n' });
  await refused({ message: 'a\0b' });
  await refused({ base: 'a'.repeat(200) });
  for (const name of ['', ' ', '<>', '\n', 'a'.repeat(USER_BYTES_MAX + 1)]) await refused({ author: { name, email: 'a@example.com' } });
});

test('nothing is read or written through a link that leads outside', async () => {
  const [directory, outside] = [smallSite(), smallSite()];
  const storage = fileStorage({ directory });
  symlinkSync(path.join(outside, 'routes/a.json'), path.join(directory, 'routes/out.json'));
  symlinkSync(path.join(outside, 'routes'), path.join(directory, 'routes/linked'));
  symlinkSync(path.join(outside, 'routes'), path.join(directory, 'content'));
  symlinkSync('missing.json', path.join(directory, 'routes/dangling.json'));
  symlinkSync('a.json', path.join(directory, 'routes/inside.json'));
  const { files } = await storage.list();
  assert.deepEqual(texts(files), { ...SMALL, 'routes/inside.json': SMALL['routes/a.json'] });
  for (const name of ['routes/out.json', 'routes/dangling.json', 'routes/linked/new.json', 'content/new.json']) {
    await assert.rejects(storage.save(saveOf(change('routes/a.json', 'x', SMALL['routes/a.json']!), change(name, '{}', null))), hasCode('link'), name);
  }
  await assert.rejects(storage.save(saveOf(change('routes/inside.json', '{}', SMALL['routes/a.json']!))), hasCode('link'));
  assert.equal((await storage.save(saveOf(change('content/new.json', '{}', 'other')))).kind, 'conflict');
  assert.deepEqual(tree(outside), Object.fromEntries(Object.entries(SMALL).sort()));
  assert.equal(readFileSync(path.join(directory, 'routes/a.json'), 'utf8'), SMALL['routes/a.json']);
  assert.ok(lstatSync(path.join(directory, 'routes/inside.json')).isSymbolicLink());
});

test('the site directory itself can be a link', async () => {
  const directory = path.join(temporaryDirectory(), 'link');
  symlinkSync(smallSite(), directory);
  const storage = fileStorage({ directory });
  assert.equal((await storage.save(FIVE)).kind, 'saved');
  assert.deepEqual(texts((await storage.list()).files), after(SMALL, FIVE));
});

test('a directory, a pipe and a file in a wrong place are refused', async () => {
  const directory = smallSite();
  const storage = fileStorage({ directory });
  mkdirSync(path.join(directory, 'routes/dir.json'));
  execFileSync('mkfifo', [path.join(directory, 'routes/pipe.json')]);
  writeFileSync(path.join(directory, 'routes/file'), '');
  for (const name of ['routes/dir.json', 'routes/pipe.json', 'routes/file/a.json']) {
    await assert.rejects(storage.save(saveOf(change('routes/new/x.json', '{}', null), change(name, '{}', null))), hasCode('not_a_file'), name);
  }
  assert.deepEqual(texts((await storage.list()).files), SMALL);
  assert.equal(statSync(path.join(directory, 'routes/new'), { throwIfNoEntry: false }), undefined);
});

test('files that are not in UTF-8 and missing directories are named errors', async () => {
  const directory = smallSite();
  writeFileSync(path.join(directory, 'routes/bad.json'), Buffer.from([0x22, 0xff, 0x22]));
  await assert.rejects(fileStorage({ directory }).list(), hasCode('not_utf8'));
  await assert.rejects(fileStorage({ directory: path.join(directory, 'missing') }).list(), hasCode('no_directory'));
  await assert.rejects(fileStorage({ directory: path.join(directory, 'site.json') }).list(), hasCode('no_directory'));
});

test('the limits of one file, of a message, of a path and of changes hold at one below, at and above', async () => {
  const directory = smallSite();
  const storage = fileStorage({ directory });
  const tries = async (save: object, code: string | null) => {
    const result = storage.save({ ...saveOf(), ...save });
    if (code) return assert.rejects(result, hasCode(code));
    return assert.equal((await result).kind, 'saved');
  };
  // An umlaut has two bytes.
  for (const [bytes, code] of [[FILE_BYTES_MAX - 1, null], [FILE_BYTES_MAX, null], [FILE_BYTES_MAX + 1, 'file_too_large']] as const) {
    await tries({ changes: [change(`routes/f${bytes}.json`, `ä${'a'.repeat(bytes - 2)}`, null)] }, code);
  }
  for (const [bytes, code] of [[MESSAGE_BYTES_MAX - 1, null], [MESSAGE_BYTES_MAX, null], [MESSAGE_BYTES_MAX + 1, 'message_too_long']] as const) {
    await tries({ message: `ä${'a'.repeat(bytes - 2)}`, changes: [change(`routes/m${bytes}.json`, '{}', null)] }, code);
  }
  for (const [bytes, code] of [[PATH_BYTES_MAX - 1, null], [PATH_BYTES_MAX, null], [PATH_BYTES_MAX + 1, 'invalid_path']] as const) {
    await tries({ changes: [change(`routes/ä${'a'.repeat(bytes - 14)}.json`, '{}', null)] }, code);
  }
  for (const [count, code] of [[CHANGES_MAX - 1, null], [CHANGES_MAX, null], [CHANGES_MAX + 1, 'too_many_changes']] as const) {
    await tries({ changes: Array.from({ length: count }, (_, n) => change(`routes/c${count}/${n}.json`, '{}', null)) }, code);
  }
});

test('the limits of the files and of the bytes of a site hold at one below, at and above', async () => {
  const many = smallSite({});
  write(many, Object.fromEntries(Array.from({ length: FILES_MAX - 2 }, (_, n) => [`routes/${n}.json`, ''])));
  const storage = fileStorage({ directory: many });
  for (const n of [1, 2]) assert.equal((await storage.save(saveOf(change(`routes/new${n}.json`, '', null)))).kind, 'saved');
  await assert.rejects(storage.save(saveOf(change('routes/new3.json', '', null))), hasCode('too_many_files'));
  assert.equal(Object.keys((await storage.list()).files).length, FILES_MAX);
  write(many, { 'routes/by-hand.json': '' });
  await assert.rejects(storage.list(), hasCode('too_many_files'));

  const large = smallSite({});
  for (let n = 0; n < SITE_BYTES_MAX / FILE_BYTES_MAX; n++) {
    write(large, { [`content/${n}.json`]: '' });
    truncateSync(path.join(large, `content/${n}.json`), n === 0 ? FILE_BYTES_MAX - 2 : FILE_BYTES_MAX);
  }
  const largeStorage = fileStorage({ directory: large });
  for (const text of ['a', 'aa']) {
    const old = text.slice(1);
    assert.equal((await largeStorage.save(saveOf(change('site.json', text, old || null)))).kind, 'saved');
  }
  await assert.rejects(largeStorage.save(saveOf(change('site.json', 'aaa', 'aa'))), hasCode('site_too_large'));
  await largeStorage.list();
  write(large, { 'site.json': 'aaa' });
  await assert.rejects(largeStorage.list(), hasCode('site_too_large'));
  truncateSync(path.join(large, 'content/0.json'), FILE_BYTES_MAX + 1);
  await assert.rejects(largeStorage.list(), hasCode('file_too_large'));
});

const isRoot = process.getuid?.() === 0;

test('a directory that may not be written can be listed and not saved', { skip: !isRoot && 'needs root' }, async () => {
  const directory = smallSite();
  // Only the process without rights of root is refused. It loads its modules before.
  const code = `
    process.setgid(65534); process.setuid(65534);
    const storage = fileStorage({ directory: argv[0] });
    const { files } = await storage.list();
    const code = await storage.save(JSON.parse(argv[1])).then((saved) => saved.kind, (error) => error.code);
    console.log(JSON.stringify([Object.keys(files).length, code]));`;
  chmodSync(directory, 0o755);
  const { output } = await ended(script(code, directory, JSON.stringify(FIVE)));
  assert.deepEqual(JSON.parse(output), [Object.keys(SMALL).length, 'read_only']);
  chmodSync(directory, 0o777);
  // The directory can be written, and a directory in it cannot.
  const second = await ended(script(code, directory, JSON.stringify(FIVE)));
  assert.deepEqual(JSON.parse(second.output), [Object.keys(SMALL).length, 'read_only']);
  assert.deepEqual(tree(directory), Object.fromEntries(Object.entries(SMALL).sort()));
});

test('a full disk loses nothing', { skip: !isRoot && 'needs root' }, async (t) => {
  const directory = temporaryDirectory();
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=128k', 'tmpfs', directory], { stdio: 'ignore' });
  } catch {
    return t.skip('cannot mount a tmpfs');
  }
  try {
    write(directory, SMALL);
    const storage = fileStorage({ directory });
    const large = change('routes/large.json', 'a'.repeat(256 << 10), null);
    await assert.rejects(storage.save(saveOf(...FIVE.changes, large)), hasCode('disk_full'));
    assert.deepEqual(tree(directory), Object.fromEntries(Object.entries(SMALL).sort()));
    assert.equal((await storage.save(FIVE)).kind, 'saved');
    // Not even a lock file fits.
    assert.throws(() => writeFileSync(path.join(directory, 'rest'), 'a'.repeat(256 << 10)), /ENOSPC/);
    assert.deepEqual(texts((await storage.list()).files), after(SMALL, FIVE));
    await assert.rejects(storage.save(saveOf(change('routes/x.json', '{}', null))), hasCode('disk_full'));
  } finally {
    execFileSync('umount', [directory]);
  }
});

test('lint and compile ignore the lock, the journal and the new texts', () => {
  const directory = smallSite();
  const lint = () => parallax('lint', directory);
  const before = lint();
  write(directory, { '.parallax-lock': 'x', '.parallax-journal': 'x', '.parallax-journal-new': 'x', '.parallax-new-0': 'x', 'routes/.parallax-new-1': 'x', 'routes/shop/.parallax-new-2': 'x' });
  assert.equal(lint(), before);
  parallax('compile', directory, '-o', path.join(temporaryDirectory(), 'x.snapshot'));
});

test('a damaged and a newer journal are named errors, and nothing is changed', async () => {
  const directory = smallSite();
  const storage = fileStorage({ directory });
  const text = JSON.stringify({ version: 1, steps: [], commit: null });
  const tampered = JSON.stringify({ version: 1, steps: [{ path: '../x.json', temporary: null, old: etagOf('x'), next: null }], commit: null });
  const journals: [string, string][] = [
    ['', 'journal_damaged'],
    ['null\n', 'journal_damaged'],
    ['{"version":1}\n', 'journal_damaged'],
    [`${text}\n${etagOf('other')}\n`, 'journal_damaged'],
    [text, 'journal_damaged'],
    [`${tampered}\n${etagOf(tampered)}\n`, 'journal_damaged'],
    ['a'.repeat(2 << 20), 'journal_damaged'],
    ['{"version":2,"more":[]}\nanother hash\n', 'journal_newer'],
  ];
  for (const [journal, code] of journals) {
    write(directory, { '.parallax-journal': journal });
    const before = tree(directory);
    await assert.rejects(storage.list(), hasCode(code), journal.slice(0, 80));
    await assert.rejects(storage.save(FIVE), hasCode(code), journal.slice(0, 80));
    assert.deepEqual(tree(directory), before);
  }
});

test('a begun save whose files were changed by hand is undone, or needs a person', async () => {
  const [a, b] = [SMALL['routes/a.json']!, SMALL['routes/b.json']!];
  const steps = [
    { path: 'routes/a.json', temporary: 'routes/.parallax-new-0', old: etagOf(a), next: etagOf('new a') },
    { path: 'routes/b.json', temporary: 'routes/.parallax-new-1', old: etagOf(b), next: etagOf('new b') },
  ];
  const journal = JSON.stringify({ version: 1, steps, commit: null });
  const begun = { '.parallax-journal': `${journal}\n${etagOf(journal)}\n`, 'routes/.parallax-new-0': 'new a', 'routes/.parallax-new-1': 'new b' };
  const recovered = async (files: Record<string, string>) => texts((await fileStorage({ directory: smallSite({ ...SMALL, ...files }) }).list()).files);

  assert.deepEqual(await recovered(begun), { ...SMALL, 'routes/a.json': 'new a', 'routes/b.json': 'new b' });
  assert.deepEqual(await recovered({ ...begun, 'routes/b.json': 'by hand' }), { ...SMALL, 'routes/b.json': 'by hand' });
  assert.deepEqual(await recovered({ ...begun, 'routes/.parallax-new-1': 'damaged' }), SMALL);
  const half = { ...begun, 'routes/a.json': 'new a', 'routes/b.json': 'by hand' };
  const directory = smallSite({ ...SMALL, ...half });
  await assert.rejects(fileStorage({ directory }).list(), hasCode('recovery_conflict'));
  assert.equal(readFileSync(path.join(directory, 'routes/b.json'), 'utf8'), 'by hand');
  assert.equal(readFileSync(path.join(directory, 'routes/.parallax-new-1'), 'utf8'), 'new b');
});

test('a publication compiles the files of its revision, and saves wait for it while listings do not', async () => {
  const directory = smallSite();
  const snapshots = temporaryDirectory();
  let started = () => {};
  let release = () => {};
  const begun = new Promise<void>((resolve) => (started = resolve));
  const released = new Promise<void>((resolve) => (release = resolve));
  const publish = async (revision: string) => {
    started();
    await released;
    parallax('compile', directory, '-o', `${snapshots}/`);
    assert.equal(readFileSync(path.join(directory, 'routes/a.json'), 'utf8'), SMALL['routes/a.json']);
    return { status: `published ${revision}` };
  };
  const storage = fileStorage({ directory, publish });
  const { revision } = await storage.list();
  await assert.rejects(storage.publish!(etagOf('another')), hasCode('revision_changed'));
  const publication = storage.publish!(revision);
  await begun;
  let isSaved = false;
  const saving = storage.save(FIVE).then((saved) => ((isSaved = true), saved));
  assert.equal((await storage.list()).revision, revision);
  assert.equal(isSaved, false);
  release();
  assert.deepEqual(await publication, { status: `published ${revision}` });
  assert.equal((await saving).kind, 'saved');
  assert.equal(fileStorage({ directory }).publish, undefined);
});
