// A save that is killed, or refused by the system, at each of its system calls. strace does both.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { fileStorage } from '../../src/server/files.js';
import { FIVE, SMALL, after, ended, parallax, script, smallSite, temporaryDirectory, tree } from './site.js';

const LONG = process.env.PARALLAX_LONG === '1';
const hasStrace = spawnSync('strace', ['-V']).status === 0;
const skip = !hasStrace && 'needs strace';

const OLD = Object.fromEntries(Object.entries(SMALL).sort());
const NEW = after(SMALL, FIVE);
const SAVE = `
  const saved = await fileStorage({ directory: argv[0] }).save(JSON.parse(argv[1])).then((saved) => saved.kind, (error) => error.code ?? error.message);
  console.log(saved);`;
const LIST = 'await fileStorage({ directory: argv[0] }).list();';
/** The files of a save with known names. strace counts only calls that name one of them, and not those of Node itself. */
const NAMES = ['', 'routes', 'routes/more', 'routes/shop', '.parallax-lock', '.parallax-journal', '.parallax-journal-new', ...FIVE.changes.map(({ path: name }) => name)];
const TEMPORARIES = FIVE.changes.map(({ path: name }, n) => path.posix.join(path.posix.dirname(name), `.parallax-new-${n}`));

interface Traced {
  isHit: boolean;
  signal: NodeJS.Signals | null;
  output: string;
}

/** Runs a process. Its call number `n` of a kind gets an error or a signal. */
async function traced(call: string, fault: string, n: number, words: string[], paths: string[] = []): Promise<Traced> {
  const log = path.join(temporaryDirectory(), 'log');
  const only = paths.flatMap((place) => ['-P', place]);
  const { code, signal, output } = await ended(['strace', '-f', '-q', '-o', log, ...only, '-e', `trace=${call}`, '-e', `inject=${call}:${fault}:when=${n}`, ...words]);
  // strace ends itself with the signal of the process.
  const killedBy = signal ?? (code === 137 ? 'SIGKILL' : null);
  return { isHit: killedBy !== null || readFileSync(log, 'utf8').includes('(INJECTED)'), signal: killedBy, output: output.trim() };
}

const compiled = new Set<string>();

/** Checks that a directory has all old files or all new ones, and nothing else. Returns which. */
async function stateAfter(directory: string): Promise<'old' | 'new'> {
  const { files } = await fileStorage({ directory }).list();
  const left = tree(directory);
  assert.deepEqual(Object.fromEntries(Object.entries(files).map(([name, { text }]) => [name, text])), left);
  const state = left['routes/a.json'] === NEW['routes/a.json'] ? 'new' : 'old';
  assert.deepEqual(left, state === 'new' ? NEW : OLD);
  // The same files compile again.
  if (LONG || !compiled.has(state)) parallax('compile', directory, '-o', path.join(temporaryDirectory(), 'x.snapshot'));
  compiled.add(state);
  return state;
}

const CALLS = ['link', 'mkdir', 'write', 'fsync', 'rename', 'unlink', ...(LONG ? ['openat', 'close', 'fchmod'] : [])];
const pathsOf = (directory: string) => [...NAMES, ...TEMPORARIES].map((name) => path.join(directory, name));
const needsPaths = (call: string) => ['openat', 'close', 'fchmod'].includes(call);

for (const call of CALLS) {
  test(`a save that is killed at any ${call} leaves all files old or all new`, { skip }, async () => {
    const states: string[] = [];
    for (let n = 1; ; n++) {
      const directory = smallSite();
      const paths = needsPaths(call) ? pathsOf(directory) : [];
      const { isHit, output } = await traced(call, 'signal=SIGKILL', n, script(SAVE, directory, JSON.stringify(FIVE)), paths);
      const state = await stateAfter(directory);
      if (!isHit) {
        assert.equal(output, 'saved');
        break;
      }
      states.push(state);
    }
    assert.ok(states.length > 0, 'no kill');
    // The save counts from one call on, and not before. Other threads of Node also write, open and close, at any time.
    if (!['write', 'openat', 'close'].includes(call)) assert.deepEqual(states, [...states].sort().reverse(), states.join(' '));
    const [both, one] = [['rename', 'unlink', 'fsync', 'write', 'openat', 'close'], ['link', 'mkdir', 'fchmod']];
    if (both.includes(call)) assert.deepEqual(new Set(states), new Set(['old', 'new']));
    if (one.includes(call)) assert.ok(states.includes('old'));
  });
}

test('a recovery that is killed at any call is finished by the next one', { skip }, async () => {
  for (const call of ['rename', 'unlink', 'fsync']) {
    for (let n = 1, isHit = true; isHit; n++) {
      const directory = smallSite();
      // The second rename of the save is the first one of a file: the journal was the one before.
      const first = await traced('rename', 'signal=SIGKILL', 3, script(SAVE, directory, JSON.stringify(FIVE)));
      assert.equal(first.isHit, true);
      isHit = (await traced(call, 'signal=SIGKILL', n, script(LIST, directory))).isHit;
      assert.equal(await stateAfter(directory), 'new');
      assert.ok(n > 1 || isHit, 'no kill');
    }
  }
});

const FAULTS: [string, string][] = [['link', 'ENOSPC'], ['mkdir', 'ENOSPC'], ['write', 'ENOSPC'], ['fsync', 'EIO'], ['rename', 'ENOSPC'], ['unlink', 'EIO']];

for (const [call, error] of FAULTS) {
  test(`a save with ${error} at any ${call} changes all files or none, and says which`, { skip }, async () => {
    const answers = new Set<string>();
    for (let n = 1; ; n++) {
      const directory = smallSite();
      const paths = call === 'write' ? [...TEMPORARIES, '.parallax-journal-new'].map((name) => path.join(directory, name)) : [];
      const { isHit, signal, output } = await traced(call, `error=${error}`, n, script(SAVE, directory, JSON.stringify(FIVE)), paths);
      assert.equal(signal, null);
      assert.equal(await stateAfter(directory), output === 'saved' || output === 'unfinished' ? 'new' : 'old', `${call} ${n}: ${output}`);
      if (!isHit) break;
      answers.add(output);
    }
    assert.ok(answers.size > 0, 'no fault');
    if (error === 'ENOSPC') assert.ok(answers.has('disk_full'), [...answers].join(' '));
  });
}

test('each step is durable before the next one counts on it', { skip }, async () => {
  const directory = smallSite();
  const log = path.join(temporaryDirectory(), 'log');
  const trace = ['strace', '-f', '-q', '-y', '-o', log, '-e', 'trace=fsync,rename,unlink,mkdir'];
  assert.equal((await ended([...trace, ...script(SAVE, directory, JSON.stringify(FIVE))])).output.trim(), 'saved');
  // Lines such as `12 fsync(3</site/routes>) = 0` and `12 rename("/site/a", "/site/b") = 0`.
  const calls = readFileSync(log, 'utf8').split('\n').filter((line) => line.includes(directory) && !line.includes('.parallax-lock'));
  const short = calls.map((line) => line.replace(/^\d+ +/, '').replaceAll(`${directory}/`, '').replaceAll(directory, '.'));
  const at = (start: string, from = 0) => {
    const found = short.findIndex((line, n) => n >= from && line.startsWith(start));
    assert.ok(found >= 0, `${start} after call ${from} of\n${short.join('\n')}`);
    return found;
  };
  const synced = (name: string, from: number, to: number) => {
    const isFound = short.some((line, n) => n >= from && n < to && /^fsync/.test(line) && line.includes(`<${name}>`));
    assert.ok(isFound, `fsync of ${name} in calls ${from} to ${to} of\n${short.join('\n')}`);
  };
  const temporaries = FIVE.changes.flatMap(({ text }, n) => (text === null ? [] : [TEMPORARIES[n]!]));
  const commit = at('rename(".parallax-journal-new", ".parallax-journal")');
  const first = at('rename(', commit + 1);
  const last = Math.max(...temporaries.map((name) => at(`rename("${name}"`)), at('unlink("routes/shop/c.json")'));
  const end = at('unlink(".parallax-journal")', last);
  for (const name of [...temporaries, '.parallax-journal-new', '.', 'routes', 'routes/more']) synced(name, 0, commit);
  synced('routes', at('mkdir("routes/more"'), commit);
  synced('.', commit, first);
  for (const name of ['.', 'routes', 'routes/more', 'routes/shop']) synced(name, last, end);
  synced('.', end, short.length);
});
