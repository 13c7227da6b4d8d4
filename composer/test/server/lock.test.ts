import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import path from 'node:path';
import type { Writable } from 'node:stream';
import { test } from 'node:test';
import { StorageError } from '../../src/server/errors.js';
import { fileStorage } from '../../src/server/files.js';
import { type Owner, removeDead, tryLock, withLock } from '../../src/server/lock.js';
import { ended, script, temporaryDirectory, tree, write } from './site.js';

const LONG = process.env.PARALLAX_LONG === '1';
const SEED = Number(process.env.SEED ?? Date.now() % 1_000_000);
console.log(`SEED=${SEED}`);

const isLinux = process.platform === 'linux';

/** Returns the owner that this process writes. */
function ownOwner(): Owner {
  const file = path.join(temporaryDirectory(), '.parallax-lock');
  const { lock } = tryLock(file, 'save');
  const owner = JSON.parse(readFileSync(file, 'utf8')) as Owner;
  lock!.release();
  return owner;
}

/** Returns the process ID of a process that has ended. */
async function deadPid(): Promise<number> {
  return Number((await ended([process.execPath, '-e', 'console.log(process.pid)'])).output);
}

async function isTaken(text: string): Promise<boolean> {
  const directory = temporaryDirectory();
  writeFileSync(path.join(directory, '.parallax-lock'), text);
  try {
    await withLock(directory, 'save', async () => assert.ok(existsSync(path.join(directory, '.parallax-lock'))), 100);
  } catch (error) {
    assert.ok(error instanceof StorageError && error.code === 'locked', String(error));
    assert.deepEqual(readdirSync(directory), ['.parallax-lock']);
    assert.equal(readFileSync(path.join(directory, '.parallax-lock'), 'utf8'), text);
    return false;
  }
  assert.deepEqual(readdirSync(directory), []);
  return true;
}

test('the lock of a dead owner of this machine is taken, and no other one', async () => {
  const own = ownOwner();
  const taken = (members: Partial<Owner>) => isTaken(JSON.stringify({ ...own, ...members }));
  assert.equal(own.pid, process.pid);
  assert.equal(own.host, hostname());
  assert.equal(await taken({}), false);
  assert.equal(await taken({ pid: await deadPid() }), true);
  assert.equal(await taken({ pid: await deadPid(), started: null }), true);
  assert.equal(await taken({ pid: process.pid, started: null }), false);
  assert.equal(await taken({ pid: await deadPid(), host: 'another' }), false);
  if (isLinux) {
    assert.equal(await taken({ started: '1' }), true, 'the process ID is used again');
    assert.equal(await taken({ boot: 'another' }), true, 'the machine was started again');
    assert.equal(await taken({ pid: await deadPid(), namespace: 'another' }), false, 'another container');
  }
  for (const text of ['', 'x', '{}', 'null', '{"pid":1,"nonce":"../x"}', 'a'.repeat(10_000)]) assert.equal(await isTaken(text), false, text.slice(0, 40));
});

test('a lock is released after an error, and the next one waits for it', async () => {
  const directory = temporaryDirectory();
  await assert.rejects(withLock(directory, 'save', async () => Promise.reject(new Error('work'))), /work/);
  const order: string[] = [];
  const work = (name: string) => withLock(directory, 'save', async () => {
    order.push(name);
    await new Promise((resolve) => setImmediate(resolve));
    order.push(name);
  });
  await Promise.all([work('a'), work('b'), work('c')]);
  for (let n = 0; n < 6; n += 2) assert.equal(order[n], order[n + 1], order.join(''));
});

test('a process that died while it removed a dead lock does not keep it', async () => {
  const directory = temporaryDirectory();
  const file = path.join(directory, '.parallax-lock');
  const [own, pid] = [ownOwner(), await deadPid()];
  const nonces = ['a', 'b', 'c', 'd'].map((letter) => letter.repeat(32));
  writeFileSync(file, JSON.stringify({ ...own, pid, nonce: nonces[0] }));
  for (let n = 1; n < nonces.length; n++) writeFileSync(`${file}-${nonces[n - 1]}`, JSON.stringify({ ...own, pid, nonce: nonces[n] }));
  await withLock(directory, 'save', async () => {}, 5_000);
  assert.equal(existsSync(file), false);
});

test('a living process that removes a dead lock is not disturbed', async () => {
  const directory = temporaryDirectory();
  const file = path.join(directory, '.parallax-lock');
  const own = ownOwner();
  const nonce = 'a'.repeat(32);
  writeFileSync(file, JSON.stringify({ ...own, pid: await deadPid(), nonce }));
  writeFileSync(`${file}-${nonce}`, JSON.stringify({ ...own, nonce: 'b'.repeat(32) }));
  await assert.rejects(withLock(directory, 'save', async () => {}, 100), { code: 'locked' });
  assert.ok(existsSync(file));
});

test('a process that is slow to remove a dead lock leaves the lock of the next owner', async () => {
  const file = path.join(temporaryDirectory(), '.parallax-lock');
  const dead: Owner = { ...ownOwner(), pid: await deadPid() };
  const { lock } = tryLock(file, 'save');
  const text = readFileSync(file, 'utf8');
  removeDead(file, dead);
  assert.equal(readFileSync(file, 'utf8'), text);
  assert.deepEqual(readdirSync(path.dirname(file)), ['.parallax-lock']);
  lock!.release();
  assert.equal(existsSync(file), false);
});

test('an owner that has ended and waits for its parent is dead', { skip: !isLinux && 'needs /proc' }, async () => {
  // The program that replaces the shell does not wait for the first one, which ends only after that.
  const parent = spawn('sh', ['-c', 'cat <&3 >/dev/null & echo $!; exec sleep 60 3<&-'], { stdio: ['ignore', 'pipe', 'inherit', 'pipe'] });
  const pid = Number(await new Promise<Buffer>((resolve) => parent.stdout!.once('data', resolve)));
  while (readFileSync(`/proc/${parent.pid}/comm`, 'utf8') !== 'sleep\n') await new Promise((resolve) => setImmediate(resolve));
  (parent.stdio[3] as Writable).end();
  const members = () => readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ');
  while (members()[0] !== 'Z') await new Promise((resolve) => setImmediate(resolve));
  assert.equal(await isTaken(JSON.stringify({ ...ownOwner(), pid, started: members()[19] })), true);
  parent.kill('SIGKILL');
});

// Each process enters and leaves the lock, and is killed at times in it. A process inside names itself in a file.
const ENTER = `
  const { takeLock } = await import(argv[2]);
  let random = Number(argv[1]);
  const next = () => (random = (random * 48271) % 2147483647) / 2147483647;
  const inside = argv[0] + '/inside';
  const alive = (pid) => { try { return !/^[ZX]/.test(fs.readFileSync('/proc/' + pid + '/stat', 'utf8').split(') ')[1]); } catch { return false; } };
  for (let n = 0; n < 200; n++) {
    const lock = await takeLock(argv[0], 'save', async () => false);
    const other = fs.existsSync(inside) ? fs.readFileSync(inside, 'utf8') : '';
    if (other && other !== String(process.pid) && alive(other)) { console.log('two inside: ' + other); process.exit(3); }
    fs.writeFileSync(inside, String(process.pid));
    if (next() < 0.03) process.kill(process.pid, 'SIGKILL');
    if (next() < 0.3) await new Promise(setImmediate);
    if (fs.readFileSync(inside, 'utf8') !== String(process.pid)) { console.log('another came in'); process.exit(3); }
    fs.unlinkSync(inside);
    lock.release();
  }`;

test('many processes that are killed inside of the lock never share it', { skip: !isLinux && 'needs /proc' }, async () => {
  const directory = temporaryDirectory();
  const module = import.meta.resolve('@parallax/composer/server').replace('index.js', 'lock.js');
  let [kills, ends] = [0, 0];
  const runs = LONG ? 40 : 5;
  const worker = async (n: number) => {
    for (let run = 0; run < runs; run++) {
      const { code, signal, output } = await ended(script(ENTER, directory, String(1 + SEED * 1_000 + n * 100 + run), module));
      assert.ok(code === 0 || signal === 'SIGKILL', `${code} ${output}`);
      if (signal) kills++;
      else ends++;
    }
  };
  await Promise.all([0, 1, 2, 3].map(worker));
  assert.equal(kills + ends, 4 * runs);
  assert.ok(kills > 0, 'no kill');
  await withLock(directory, 'save', async () => {}, 5_000);
});

const COUNT = `
  const storage = fileStorage({ directory: argv[0] });
  const author = { name: 'A', email: 'a@example.com' };
  const names = ['routes/a.json', 'routes/b.json', 'routes/shop/c.json'];
  for (let n = 0; n < Number(argv[1]); ) {
    const { files, revision } = await storage.list();
    const texts = names.map((name) => files[name].text);
    if (new Set(texts).size !== 1) { console.log('a part of a save: ' + texts); process.exit(3); }
    const text = String(Number(texts[0]) + 1);
    const saved = await storage.save({ base: revision, message: 'Count', author, changes: names.map((path) => ({ path, text, etag: files[path].etag })) });
    if (saved.kind === 'conflict') {
      if (new Set(Object.values(saved.files).map((file) => file.text)).size !== 1) { console.log('a part of a save in a conflict'); process.exit(3); }
      continue;
    }
    n++;
    fs.writeSync(1, '+');
  }`;

function countUp(directory: string, count: number, killAfterMs?: number): Promise<{ counted: number; killed: boolean }> {
  const words = script(COUNT, directory, String(count));
  const child = spawn(words[0]!, words.slice(1), { stdio: ['ignore', 'pipe', 'inherit'] });
  let output = '';
  child.stdout.on('data', (part) => {
    // The clock of a kill begins with the first save, because the start of Node takes longer than many saves.
    if (output === '' && killAfterMs !== undefined) setTimeout(() => child.kill('SIGKILL'), killAfterMs);
    output += part;
  });
  return new Promise((resolve, reject) => {
    child.once('close', (code, signal) => {
      const killed = signal === 'SIGKILL';
      if (code === 0 || killed) resolve({ counted: output.length, killed });
      else reject(new Error(output));
    });
  });
}

function counters(): string {
  const directory = temporaryDirectory();
  for (const name of ['routes/a.json', 'routes/b.json', 'routes/shop/c.json']) write(directory, { [name]: '0' });
  return directory;
}

test('processes that save at the same time lose nothing, and see all of a save or none', async () => {
  const directory = counters();
  const [processes, saves] = [3, LONG ? 500 : 40];
  await Promise.all(Array.from({ length: processes }, () => countUp(directory, saves)));
  const { files } = await fileStorage({ directory }).list();
  assert.deepEqual(new Set(Object.values(files).map((file) => file.text)), new Set([String(processes * saves)]));
});

test('processes that are killed while they save lose nothing that they acknowledged', async () => {
  const directory = counters();
  let [counted, kills, random] = [0, 0, 1 + SEED];
  const runs = LONG ? 60 : 6;
  const worker = async () => {
    for (let n = 0; n < runs; n++) {
      random = (random * 48271) % 2147483647;
      const end = await countUp(directory, 1_000_000, random % 200);
      counted += end.counted;
      kills += end.killed ? 1 : 0;
    }
  };
  await Promise.all([worker(), worker()]);
  assert.equal(kills, 2 * runs);
  const { files } = await fileStorage({ directory }).list();
  const total = Number(files['routes/a.json']!.text);
  assert.deepEqual(new Set(Object.values(files).map((file) => file.text)).size, 1);
  assert.ok(total >= counted && total <= counted + kills, `${total} of ${counted} and ${kills} kills`);
  assert.deepEqual(Object.keys(tree(directory)), ['routes/a.json', 'routes/b.json', 'routes/shop/c.json']);
});
