// The commands that both run. Each case has the arguments, and a function that makes the directory in which they run. Most have the
// exit code, so that a case cannot fail in both for another reason.
import { execFileSync } from 'node:child_process';
import { chmodSync, cpSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';

const demo = (work, root) => cpSync(path.join(root, 'snapshots/demo'), path.join(work, 'site'), { recursive: true });

const starter = (work, root, parallax) => execFileSync(parallax, ['init', 'site'], { cwd: work });

const pair = (name) => (work, root) => cpSync(path.join(root, 'tests/golden/against', name), work, { recursive: true });

const PAIRS = ['audiences', 'ends', 'held-out', 'holdouts', 'new-and-removed', 'new-phases', 'ramps', 'unchanged'];

/** Writes files into the starter. A content `null` makes a directory. */
const withFiles = (files) => (work, root, parallax) => {
  starter(work, root, parallax);
  for (const [name, content] of Object.entries(files)) {
    const file = path.join(work, 'site', name);
    mkdirSync(content === null ? file : path.dirname(file), { recursive: true });
    if (content !== null) writeFileSync(file, content);
  }
};

/** Compiles the starter with some versions into a directory. */
const withSnapshots = (...versions) => (work, root, parallax) => {
  starter(work, root, parallax);
  for (const version of versions) execFileSync(parallax, ['compile', 'site', '-o', 'snapshots/', '--version', `${version}`], { cwd: work });
};

const links = (work, root, parallax) => {
  starter(work, root, parallax);
  const site = path.join(work, 'site');
  symlinkSync('index.json', path.join(site, 'routes/linked.json'));
  symlinkSync('nothing.json', path.join(site, 'routes/dangling.json'));
  symlinkSync('/etc/hostname', path.join(site, 'routes/outside.json'));
  symlinkSync('../content', path.join(site, 'routes/more'));
};

const unreadable = (work, root, parallax) => {
  starter(work, root, parallax);
  chmodSync(path.join(work, 'site/site.json'), 0);
};

const notUtf8 = (work, root, parallax) => {
  starter(work, root, parallax);
  const name = Buffer.concat([Buffer.from(path.join(work, 'site/routes/')), Buffer.from([0xff, 0xfe]), Buffer.from('.json')]);
  writeFileSync(name, '{}');
};

const special = (work, root, parallax) => {
  starter(work, root, parallax);
  execFileSync('mkfifo', [path.join(work, 'site/routes/pipe.json')]);
};

const COMMANDS = ['init', 'lint', 'compile', 'types', 'inspect', 'schema', 'test'];

export const CASES = [
  ...COMMANDS.flatMap((name) => [
    { words: [name, '--help'], code: 0 },
    { words: [name, '-h'], code: 0 },
    { words: [name, '--help'], variables: { COLUMNS: '60' }, code: 0 },
    { words: [name], code: 2 },
    { words: [name, '--wrong', 'site'], code: 2 },
    { words: [name, 'a', 'b', 'c'], code: 2 },
    ...(name === 'schema' ? [] : [{ words: [name, 'missing'], code: name === 'init' ? 0 : 1 }]),
  ]),
  { words: ['--version'], code: 0 },
  { words: ['-V'], code: 0 },
  ...['site', 'route', 'audiences', 'queries', 'content', 'groups', 'tests', 'nothing'].map((kind) => ({ words: ['schema', kind] })),
  // dev, which ends before it serves
  { words: ['dev', 'missing'], code: 1 },
  { words: ['dev', 'site', '--listen', 'nowhere'], code: 2 },
  // init
  { words: ['init', 'my-site'], code: 0 },
  { words: ['init', 'deep/er/Not a name!'], code: 0 },
  { words: ['init', './x/../my-site/'] },
  { words: ['init', '.'], code: 0 },
  { make: (work) => mkdirSync(path.join(work, 'empty')), words: ['init', 'empty'], code: 0 },
  { make: starter, words: ['init', 'site'], code: 1 },
  { make: (work) => writeFileSync(path.join(work, 'file'), ''), words: ['init', 'file'], code: 3 },
  { make: (work) => writeFileSync(path.join(work, 'file'), ''), words: ['init', 'file/in/it'], code: 3 },
  { words: ['init', '/proc/parallax'], code: 3 },
  // lint, types and compile of valid sites
  ...[demo, starter].flatMap((make) => [
    { make, words: ['lint', 'site'], code: 0 },
    { make, words: ['lint', 'site/', '--format', 'json'], code: 0 },
    { make, words: ['types', './site'], code: 0 },
    { make, words: ['types', 'site', '-o', 'site.d.ts'], code: 0 },
    { make, words: ['types', 'site', '-o', 'site.d.ts', '--format', 'json'], code: 0 },
    { make, words: ['types', 'site', '--format', 'json'], code: 0 },
    { make, words: ['compile', 'site'], code: 0 },
    { make, words: ['compile', 'site', '-o', 'one.snapshot'], code: 0 },
    { make, words: ['compile', 'site', '-o', 'deep/er/', '--version', '7'], code: 0 },
    { make, words: ['compile', 'site', '--tracking-id', 'track_other', '--preview', 'draft'], code: 0 },
    { make, words: ['test', 'site'] },
    { make, words: ['test', 'site', '--format', 'json'] },
  ]),
  // mistakes
  { make: withFiles({ 'site.json': '{"site":"x",' }), words: ['lint', 'site'], code: 1 },
  { make: withFiles({ 'site.json': '{"site":"x",' }), words: ['compile', 'site'], code: 1 },
  { make: withFiles({ 'site.json': '{"site":"x",' }), words: ['types', 'site', '--format', 'json'], code: 1 },
  { make: withFiles({ 'contents/x.json': '[]', 'route/x.json': '{}', 'routes/x.jsn': '{}' }), words: ['lint', 'site'], code: 0 },
  { make: withFiles({ 'routes/latin1.json': Buffer.from([0x7b, 0xe9, 0x7d]) }), words: ['lint', 'site'], code: 1 },
  { make: withFiles({ 'routes/control.json': '{"path":"/\u001b[31m\u202ex"}' }), words: ['lint', 'site'], code: 1 },
  { make: withFiles({ 'routes/large.json': Buffer.alloc(17 * 1024 * 1024, 0x20) }), words: ['lint', 'site'], code: 1 },
  { make: withFiles({ 'routes/directory.json': null }), words: ['lint', 'site'] },
  { make: notUtf8, words: ['lint', 'site'], code: 1 },
  { make: links, words: ['lint', 'site'], code: 1 },
  { make: special, words: ['lint', 'site'], code: 1 },
  ...(process.getuid() === 0 ? [] : [{ make: unreadable, words: ['lint', 'site'], code: 1 }]),
  { make: (work) => mkdirSync(path.join(work, 'site')), words: ['lint', 'site'], code: 1 },
  { make: (work) => writeFileSync(path.join(work, 'site'), ''), words: ['lint', 'site'], code: 1 },
  { make: starter, words: ['lint', 'site/site.json'], code: 1 },
  { make: starter, words: ['lint', 'site', '--deny', 'new-phase'], code: 2 },
  { make: starter, words: ['lint', 'site', '--format', 'xml'], code: 2 },
  // lint --against
  ...PAIRS.flatMap((name) => [
    { make: pair(name), words: ['lint', 'after', '--against', 'before'], code: 0 },
    { make: pair(name), words: ['lint', 'after', '--against', 'before', '--format', 'json', '--deny', 'new-phase'] },
  ]),
  { make: starter, words: ['lint', 'site', '--against', 'missing'], code: 1 },
  { make: starter, words: ['lint', 'site', '--against', 'site/site.json'], code: 1 },
  { make: starter, words: ['lint', 'site', '--against', 'site/routes'], code: 1 },
  { make: withSnapshots(3, 4), words: ['lint', 'site', '--against', 'snapshots/'], code: 0 },
  { make: withSnapshots(3), words: ['lint', 'site', '--against', 'snapshots/site-3.snapshot'], code: 0 },
  // compile beside other versions
  { make: withSnapshots(3, 4, 5), words: ['compile', 'site', '-o', 'snapshots/', '--version', '6', '--keep', '2'], code: 0 },
  { make: withSnapshots(3, 9), words: ['compile', 'site', '-o', 'snapshots', '--version', '6'], code: 0 },
  { make: withSnapshots(3), words: ['compile', 'site', '-o', 'snapshots/site-3.snapshot', '--version', '6'], code: 0 },
  { make: starter, words: ['compile', 'site', '-o', 'one.snapshot', '--keep', '3'], code: 2 },
  { make: starter, words: ['compile', 'site', '--keep', '1'], code: 2 },
  { make: starter, words: ['compile', 'site', '--tracking-id', 'wrong'], code: 2 },
  { make: starter, words: ['compile', 'site', '--preview', 'a b'], code: 2 },
  { make: starter, words: ['compile', 'site'], variables: { SOURCE_DATE_EPOCH: 'now' }, code: 1 },
  { make: starter, words: ['compile', 'site', '-o', 'site/site.json/'], code: 3 },
  { make: starter, words: ['compile', 'site', '-o', 'missing/one.snapshot'], code: 3 },
  { make: starter, words: ['compile', 'site', '-o', '/proc/parallax/'], code: 3 },
  { make: starter, words: ['types', 'site', '-o', 'site'], code: 3 },
  { make: starter, words: ['types', 'site', '-o', '/dev/null'], code: 3 },
  { make: starter, words: ['types', 'site', '-o', 'missing/site.d.ts'], code: 3 },
  { make: starter, words: ['types', 'site'], stdout: '/dev/full', code: 3, needs: '/dev/full' },
  { make: starter, words: ['lint', 'site'], stdout: '/dev/full', code: 3, needs: '/dev/full' },
  // inspect
  { make: withSnapshots(3), words: ['inspect', 'snapshots/site-3.snapshot'], code: 0 },
  { make: withSnapshots(3), words: ['inspect', 'snapshots/site-3.snapshot', '--json'], code: 0 },
  { make: starter, words: ['inspect', 'site/site.json'], code: 1 },
  { make: starter, words: ['inspect', 'site'], code: 1 },
  { make: (work) => writeFileSync(path.join(work, 'x.snapshot'), 'broken'), words: ['inspect', 'x.snapshot'], code: 1 },
  // test
  { make: starter, words: ['test', 'site', '--filter', 'nothing has this'], code: 1 },
  { make: starter, words: ['test', 'site', '--format', 'junit'], code: 0 },
  { make: starter, words: ['test', 'site', '--format', 'junit', '-o', 'report.xml'], code: 0 },
  { make: starter, words: ['test', 'site', '--format', 'junit', '-o', 'missing/report.xml'], code: 3 },
  { make: withFiles({ 'tests/wrong.json': '{"cases":[{"name":"x","path":"/","expect":{"variants":{"hero":"nothing"}}}]}' }), words: ['test', 'site'], code: 1 },
];
