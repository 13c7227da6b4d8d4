// Publications with the program, in a snapshots directory and in a source.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, readFileSync, readdirSync, utimesSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { type Publisher, type Storage, StorageError, composerHandler, fileStorage, publishToSource, publishWithProgram } from '../../src/server/index.js';
import { PROGRAM_MS, PROGRAM_OUTPUT_BYTES_MAX, VERSIONS_MAX } from '../../src/server/limits.js';
import { runProgram } from '../../src/server/program.js';
import { AUTHOR, SMALL, change, ended, page, parallax, program, saveOf, script, smallSite, temporaryDirectory, tree, write } from './site.js';

const hasStrace = spawnSync('strace', ['-V']).status === 0;

/** Returns the error of a refusal. */
async function refusal(promise: Promise<unknown>): Promise<StorageError> {
  const error = await promise.then(() => assert.fail('no error'), (reason) => reason);
  assert.ok(error instanceof StorageError, String(error?.stack));
  return error;
}

/** Makes a program from a script of the shell. `$PARALLAX` is the real one. */
function fake(text: string): string {
  const file = path.join(temporaryDirectory(), 'program');
  writeFileSync(file, `#!/bin/sh\nPARALLAX=${program()}\n${text}\n`);
  chmodSync(file, 0o755);
  return file;
}

interface Site {
  directory: string;
  snapshots: string;
  storage: Storage;
}

function siteWith(make: (snapshots: string) => Publisher = (snapshots) => publishWithProgram({ program: program(), snapshots })): Site {
  const [directory, snapshots] = [smallSite(), temporaryDirectory()];
  return { directory, snapshots, storage: fileStorage({ directory, publish: make(snapshots) }) };
}

const publish = async ({ storage }: Pick<Site, 'storage'>) => (await storage.publish!((await storage.list()).revision)).version!;
const nameOf = (version: string) => `small-${version}.snapshot`;
const titleIn = (snapshot: string) => JSON.parse(parallax('inspect', '--json', snapshot)).version as string;

test('a publication adds a snapshot above all versions, and the list has the newest first', async () => {
  const site = siteWith();
  assert.deepEqual(await site.storage.versions!(), []);
  const first = await publish(site);
  assert.ok(Math.abs(Number(first) - Date.now() / 1000) < 60, first);
  const second = await publish(site);
  assert.ok(BigInt(second) > BigInt(first), 'also within a second');
  // A version that was taken back counts too, and so does one above the time of the clock.
  writeFileSync(path.join(site.snapshots, `small-${BigInt(second) + 1_000_000n}.snapshot.removed`), '');
  const third = await publish(site);
  assert.equal(BigInt(third), BigInt(second) + 1_000_001n);
  assert.deepEqual(readdirSync(site.snapshots).filter((name) => name.endsWith('.snapshot')).sort(), [first, second, third].map(nameOf).sort());
  assert.equal(titleIn(path.join(site.snapshots, nameOf(third))), third);
  const versions = await site.storage.versions!();
  assert.deepEqual(versions.map(({ version, isServed }) => [version, isServed]), [[third, true], [second, false], [first, false]]);
  assert.ok(versions.every(({ at }) => Math.abs(Date.parse(at!) - Date.now()) < 60_000));
});

test('snapshots of other sites, damaged ones and other files are no versions', async () => {
  const site = siteWith();
  const version = await publish(site);
  for (const name of ['small-9999999999.snapshot', 'small-x.snapshot', 'small-.snapshot', 'notes.txt']) writeFileSync(path.join(site.snapshots, name), 'damaged');
  writeFileSync(path.join(site.snapshots, 'small-blog-9999999999.snapshot'), readFileSync(path.join(site.snapshots, nameOf(version))));
  assert.deepEqual((await site.storage.versions!()).map((one) => one.version), [version]);
});

test('an earlier version is published again, and only the one that the person saw as the newest is taken back', async () => {
  const site = siteWith();
  const versions = [await publish(site), await publish(site), await publish(site)];
  const rollback = (version: string, newest: string) => site.storage.rollback!(version, newest);
  assert.equal((await refusal(rollback(versions[0]!, versions[1]!))).code, 'versions_changed');
  assert.equal((await refusal(rollback('1', versions[2]!))).code, 'version_not_found');
  assert.equal((await site.storage.versions!()).length, 3);
  assert.deepEqual(await rollback(versions[0]!, versions[2]!), { status: `Version ${versions[0]} is published again.`, version: versions[0] });
  assert.deepEqual((await site.storage.versions!()).map(({ version, isServed }) => [version, isServed]), [[versions[0], true]]);
  assert.deepEqual(readdirSync(site.snapshots).sort(), [nameOf(versions[0]!), `${nameOf(versions[1]!)}.removed`, `${nameOf(versions[2]!)}.removed`]);
  const next = await publish(site);
  assert.ok(BigInt(next) > BigInt(versions[2]!), 'a server that knew the removed version takes the new one');
});

test('the list has at most 20 versions', async () => {
  const site = siteWith((snapshots) => publishWithProgram({ program: program(), snapshots, keep: 100 }));
  const version = BigInt(await publish(site));
  for (let n = 1n; n <= VERSIONS_MAX; n++) {
    assert.equal((await site.storage.versions!()).length, Number(n));
    parallax('compile', site.directory, '-o', `${site.snapshots}/`, '--keep', '100', '--version', `${version + n}`);
  }
  assert.equal((await site.storage.versions!()).length, VERSIONS_MAX);
});

test('the options keep and trackingId are those of compile', async () => {
  const site = siteWith((snapshots) => publishWithProgram({ program: program(), snapshots, keep: 2, trackingId: 'track_staging' }));
  for (let n = 0; n < 3; n++) await publish(site);
  const [newest] = await site.storage.versions!();
  assert.equal((await site.storage.versions!()).length, 2);
  assert.equal(JSON.parse(parallax('inspect', '--json', path.join(site.snapshots, nameOf(newest!.version)))).trackingId, 'track_staging');
  assert.throws(() => publishWithProgram({ snapshots: '' }), /'snapshots'/);
  assert.throws(() => publishToSource({ to: '' }), /'to'/);
});

test('a site with mistakes is not published, and the answer has the list of the mistakes', async () => {
  const site = siteWith();
  write(site.directory, { 'routes/a.json': '{ "pathx": "/a" }', 'routes/b.json': '{' });
  const handle = composerHandler({ storage: site.storage, authorize: async () => ({ user: AUTHOR, roles: ['publish'] }), onError: (error) => assert.fail(String(error)) });
  const { revision } = await site.storage.list();
  const headers = { origin: 'https://www.example.com', 'content-type': 'application/json' };
  const response = await handle(new Request('https://www.example.com/publish', { method: 'POST', headers, body: JSON.stringify({ revision }) }));
  const body = (await response.json()) as any;
  assert.deepEqual([response.status, body.code], [422, 'site_invalid']);
  const listed = JSON.parse(spawnSync(program(), ['lint', site.directory, '--format', 'json'], { encoding: 'utf8' }).stdout).errors;
  assert.deepEqual(body.errors, listed);
  assert.ok(body.errors.length >= 2 && !JSON.stringify(body).includes(site.directory));
  assert.deepEqual(readdirSync(site.snapshots), []);
  for (const text of ['{', '{}', '{"site":1}', '{"site":"--help"}', '{"site":"../x"}']) {
    write(site.directory, { 'site.json': text });
    assert.equal((await refusal(publish(site))).code, 'site_invalid', text);
    assert.equal((await refusal(site.storage.versions!())).code, 'site_invalid', text);
  }
});

test('the program gets the files of the revision, also if they change meanwhile', async () => {
  const directory = smallSite();
  const snapshots = temporaryDirectory();
  const seen = path.join(temporaryDirectory(), 'seen');
  const changing = fake(`if [ "$1" = compile ]; then echo '{' > ${directory}/routes/a.json; cp -r "$2" ${seen}; fi; exec "$PARALLAX" "$@"`);
  const site = { storage: fileStorage({ directory, publish: publishWithProgram({ program: changing, snapshots }) }) };
  await publish(site);
  assert.equal(readFileSync(path.join(directory, 'routes/a.json'), 'utf8'), '{\n');
  assert.deepEqual(tree(seen), Object.fromEntries(Object.entries(SMALL).sort()));
  assert.equal(readdirSync(snapshots).length, 1);
});

test('the program sees no variable of the app but those that it needs', async () => {
  process.env.SECRET_OF_THE_APP = 'secret';
  const { output } = await runProgram(fake('env'), [], { MINE: 'x' });
  const names = output.split('\n').filter(Boolean).map((line) => line.split('=')[0]);
  assert.ok(!output.includes('secret') && names.includes('MINE') && names.includes('PATH'), output);
  assert.deepEqual(names.filter((name) => !['PATH', 'HOME', 'TMPDIR', 'LANG', 'MINE', 'PWD', 'SHLVL', '_', 'OLDPWD'].includes(name!)), []);
  delete process.env.SECRET_OF_THE_APP;
});

test('the output of the program is bounded', async () => {
  for (const bytes of [PROGRAM_OUTPUT_BYTES_MAX - 1, PROGRAM_OUTPUT_BYTES_MAX, PROGRAM_OUTPUT_BYTES_MAX + 1]) {
    const { code, output } = await runProgram(fake(`head -c ${bytes} /dev/zero`), []);
    assert.deepEqual([code, output.length], [0, Math.min(bytes, PROGRAM_OUTPUT_BYTES_MAX)]);
  }
});

test('a program that does not end is stopped, and one that cannot be started is named', async (t) => {
  const storage = (name: string) => ({ storage: fileStorage({ directory: smallSite(), publish: publishWithProgram({ program: name, snapshots: temporaryDirectory() }) }) });
  assert.equal((await refusal(publish(storage('/nowhere/parallax')))).message, 'The program of Parallax cannot be started. Check the option "program".');
  const refused = await refusal(publish(storage(fake('echo /secret/path >&2; exit 3'))));
  assert.deepEqual([refused.code, refused.message.includes('secret')], ['publish_failed', false]);
  assert.match(String(refused.cause), /\/secret\/path/);
  const mark = path.join(temporaryDirectory(), 'started');
  t.mock.timers.enable({ apis: ['setTimeout'] });
  // A process of the program keeps its output open.
  const late = refusal(runProgram(fake(`sleep 600 & echo $! > ${mark}; wait`), []));
  while (!existsSync(mark) || readFileSync(mark, 'utf8') === '') await new Promise(setImmediate);
  t.mock.timers.tick(PROGRAM_MS);
  assert.equal((await late).code, 'publish_timeout');
  process.kill(Number(readFileSync(mark, 'utf8')));
});

test('a source gets the snapshot, keeps the last versions, and goes back', async () => {
  const site = siteWith((source) => publishToSource({ program: program(), to: `file://${source}/`, keep: 3 }));
  const versions = [await publish(site), await publish(site), await publish(site), await publish(site)];
  const listed = async () => (await site.storage.versions!()).map(({ version, isServed }) => [version, isServed]);
  assert.deepEqual(await listed(), [[versions[3], true], [versions[2], false], [versions[1], false]]);
  await site.storage.rollback!(versions[1]!, versions[3]!);
  assert.deepEqual(await listed(), [[versions[1], true]]);
  const away = siteWith(() => publishToSource({ program: program(), to: 'nats://127.0.0.1:1/snapshots' }));
  assert.equal((await refusal(publish(away))).code, 'source_unreachable');
});

test('a file that a killed program left is removed when it is old', async () => {
  const site = siteWith();
  const [old, young, other] = ['.small-1.snapshot.12.tmp', '.small-2.snapshot.13.tmp', '.notes.tmp'].map((name) => path.join(site.snapshots, name));
  for (const file of [old!, young!, other!]) writeFileSync(file, '');
  for (const file of [old!, other!]) utimesSync(file, new Date(), new Date(Date.now() - PROGRAM_MS - 1_000));
  await publish(site);
  assert.deepEqual([old!, young!, other!].map((file) => existsSync(file)), [false, true, true]);
});

const PUBLISH = `
  const { publishWithProgram } = await import(${JSON.stringify(import.meta.resolve('@parallax/composer/server'))});
  const storage = fileStorage({ directory: argv[0], publish: publishWithProgram({ program: argv[1], snapshots: argv[2] }) });
  const { revision } = await storage.list();
  console.log(await storage.publish(revision).then(({ version }) => version, ({ code }) => code));`;

for (const call of ['mkdir', 'fsync', 'linkat', 'execve', 'unlink']) {
  test(`a publication that is killed at any ${call} leaves whole snapshots, and the next one leaves nothing else`, { skip: !hasStrace && 'needs strace' }, async () => {
    let kills = 0;
    for (let n = 1; ; n++) {
      const site = siteWith();
      const first = await publish(site);
      await site.storage.save(saveOf(change('routes/a.json', page('/a', 'new'), SMALL['routes/a.json']!)));
      const home = temporaryDirectory();
      mkdirSync(path.join(home, 'tmp'));
      const log = path.join(home, 'log');
      const traced = ['strace', '-f', '-q', '-o', log, '-E', `TMPDIR=${home}/tmp`, '-e', `trace=${call}`, '-e', `inject=${call}:signal=SIGKILL:when=${n}`];
      await ended([...traced, ...script(PUBLISH, site.directory, program(), site.snapshots)]);
      const isHit = readFileSync(log, 'utf8').includes('killed by SIGKILL');
      const names = readdirSync(site.snapshots);
      assert.ok(names.includes(nameOf(first)) && names.length <= 2, names.join(' '));
      execFileSync(program(), ['check', site.snapshots], { stdio: 'ignore' });
      const last = await publish(site);
      const versions = (await site.storage.versions!()).map(({ version }) => nameOf(version));
      assert.equal(versions[0], nameOf(last));
      assert.deepEqual(readdirSync(site.snapshots).sort(), versions.sort());
      if (!isHit) break;
      kills += 1;
    }
    assert.ok(kills > 0, 'no kill');
  });
}
