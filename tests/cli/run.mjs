#!/usr/bin/env node
// Runs the commands of the package @parallax/cli and of the program with equal arguments in equal directories, and compares exit codes,
// both streams and all files. Then it follows the first steps of a user from the packed package: init, dev, and a decided page.
//
// `run [PARALLAX [SITES]]`: the program, that of `cargo build` by default, and a directory with more sites, one in each directory: those
// that the tests `authoring` write into the directory of PARALLAX_SITES. The exit code is 1 if a byte differs.
import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, existsSync, lstatSync, mkdirSync, mkdtempSync, openSync, readFileSync, readdirSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { CASES } from './cases.mjs';
import { firstSteps } from './first-steps.mjs';

const require = createRequire(import.meta.url);
const { Dice } = require('../wasm/random.cjs');
const { madeSite, readSite, spoilt } = require('../wasm/sites.cjs');

const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
const TARGET = path.resolve(process.env.CARGO_TARGET_DIR ?? path.join(ROOT, 'target'));
const PARALLAX = path.resolve(process.argv[2] ?? path.join(TARGET, 'debug/parallax'));
const SITES = process.argv[3];
// Sites with random mistakes.
const SPOILT = 100;
// 2026-01-01T12:00:00Z: the time of all commands.
const EPOCH = '1767268800';

const differences = [];

function differ(text) {
  differences.push(text);
  if (differences.length <= 10) console.log(`FAIL  ${text}`);
}

/** Packs the package and installs the tarball into an empty directory. Returns the directory of the package and its tarball. */
function installPackage(directory) {
  const env = { ...process.env, PARALLAX_MODULES: path.join(TARGET, 'modules') };
  execFileSync(process.execPath, [path.join(ROOT, 'sdk/cli/build.mjs')], { env });
  const tarball = execFileSync('npm', ['pack', '--silent', '--pack-destination', directory], { cwd: path.join(ROOT, 'sdk/cli'), encoding: 'utf8' }).trim();
  writeFileSync(path.join(directory, 'package.json'), '{"private":true}');
  execFileSync('npm', ['install', '--silent', '--no-audit', '--no-fund', '--offline', `./${tarball}`], { cwd: directory, stdio: 'inherit' });
  return { installed: path.join(directory, 'node_modules/@parallax/cli'), tarball: path.join(directory, tarball) };
}

/** Compares the end of `parallax dev` on an address that this machine does not have. The program also writes log lines. */
function compareRefusal(work, commands) {
  const ends = commands.map((command) => {
    const words = ['dev', 'site', '--listen', '192.0.2.1:80'];
    const make = (directory) => cpSync(path.join(ROOT, 'snapshots/demo'), path.join(directory, 'site'), { recursive: true });
    const { status, output, errors } = runCase({ make, words }, work, command);
    return JSON.stringify([status, output.replace(/version \d+|\d+ ms/g, ''), errors.trimEnd().split('\n').at(-1)]);
  });
  if (ends[0] !== ends[1]) differ(`dev on a wrong address\n--- program\n${ends[0]}\n--- package\n${ends[1]}`);
}

/** Returns the files of a directory with their contents, and the targets of links. Names are bytes, in which Latin-1 has each byte. */
function readTree(directory) {
  return readdirSync(directory, { encoding: 'buffer' }).flatMap((name) => {
    const file = Buffer.concat([directory, Buffer.from('/'), name]);
    const shown = file.toString('latin1');
    const status = lstatSync(file);
    if (status.isSymbolicLink()) return [[shown, readlinkSync(file)]];
    if (status.isDirectory()) return [[shown, 'directory'], ...readTree(file)];
    return [[shown, status.isFile() ? readFileSync(file).toString('latin1') : 'special']];
  });
}

/** Runs a case with one of both in a new directory. */
function runCase({ make, words, variables, stdout }, work, command) {
  rmSync(work, { recursive: true, force: true });
  mkdirSync(work, { recursive: true });
  make?.(work, ROOT, PARALLAX);
  const [file, ...first] = command;
  const env = { PATH: process.env.PATH, SOURCE_DATE_EPOCH: EPOCH, ...variables };
  const stdio = ['ignore', stdout ? openSync(stdout, 'w') : 'pipe', 'pipe'];
  const { status, stdout: output, stderr } = spawnSync(file, [...first, ...words], { cwd: work, env, stdio, encoding: 'utf8', timeout: 30_000 });
  // The time of each case differs.
  const masked = (text) => text.replace(/ time="[\d.]+"/g, '');
  const tree = readTree(Buffer.from(work)).map(([name, content]) => [name, masked(content)]);
  return { status, output: masked(output ?? ''), errors: stderr, tree };
}

/** Returns the first difference of two results, or null. */
function differenceOf(program, module) {
  for (const name of ['status', 'output', 'errors']) {
    if (program[name] !== module[name]) return `${name}\n--- program\n${program[name]}\n--- package\n${module[name]}`;
  }
  const [expected, found] = [program.tree, module.tree].map((tree) => new Map(tree));
  const names = [...new Set([...expected.keys(), ...found.keys()])].filter((name) => expected.get(name) !== found.get(name));
  return names.length > 0 ? `the files ${names}` : null;
}

/** Returns a function that runs a command of the package in this process, because there are many sites. */
async function loadPackage(installed) {
  const { Module } = await import(pathToFileURL(path.join(installed, 'lib/module.js')));
  const { runToEnd } = await import(pathToFileURL(path.join(installed, 'lib/runs.js')));
  process.env.SOURCE_DATE_EPOCH = EPOCH;
  const module = new Module();
  return (words) => runToEnd(module, 'run', words.flatMap((word) => ['argument', word]), { printOutput: () => null });
}

/** Compares the reports of a site. Returns the exit code of the program. */
function compareReports(runPackage, work, name) {
  const words = ['lint', work, '--format', 'json'];
  const program = spawnSync(PARALLAX, words, { encoding: 'utf8' });
  const found = runPackage(words);
  const module = { status: found.code, output: `${found.output}`, errors: `${found.errors}`, tree: [] };
  const difference = differenceOf({ status: program.status, output: program.stdout, errors: program.stderr, tree: [] }, module);
  if (difference !== null) differ(`${name}: ${difference}`);
  return program.status;
}

async function compareSites(installed, work) {
  const runPackage = await loadPackage(installed);
  const demo = readSite(path.join(ROOT, 'snapshots/demo'));
  const dice = new Dice(5);
  let count = 0;
  let mistaken = 0;
  for (; count < SPOILT; count += 1) {
    rmSync(work, { recursive: true, force: true });
    for (const [file, text] of spoilt(dice, count % 2 === 0 ? demo : madeSite(dice, 'spoilt'))) {
      mkdirSync(path.dirname(path.join(work, file)), { recursive: true });
      writeFileSync(path.join(work, file), text);
    }
    mistaken += compareReports(runPackage, work, `spoilt ${count}`) !== 0;
  }
  for (const name of SITES ? readdirSync(SITES) : []) {
    count += 1;
    mistaken += compareReports(runPackage, path.join(SITES, name), name) !== 0;
  }
  console.log(`${count} sites compared, ${mistaken} of them with mistakes`);
}

async function main() {
  const directory = mkdtempSync(path.join(tmpdir(), 'parallax-cli-'));
  process.on('exit', () => rmSync(directory, { recursive: true, force: true }));
  const { installed, tarball } = installPackage(directory);
  const work = path.join(directory, 'work');
  const commands = [[PARALLAX], [process.execPath, path.join(installed, 'bin/parallax.js')]];
  const cases = CASES.filter(({ needs }) => needs === undefined || existsSync(needs));
  for (const [number, tried] of cases.entries()) {
    const [program, module] = commands.map((command) => runCase(tried, work, command));
    const difference = differenceOf(program, module);
    if (difference !== null) differ(`${number}: parallax ${tried.words.join(' ')}: ${difference}`);
    if (tried.code !== undefined && program.status !== tried.code) differ(`${number}: parallax ${tried.words.join(' ')}: exit code ${program.status}\n${program.errors}`);
  }
  compareRefusal(work, commands);
  console.log(`${cases.length} commands compared`);
  await compareSites(installed, work);
  await firstSteps(tarball, directory);
  console.log(`${differences.length} differences`);
  process.exitCode = differences.length > 0 ? 1 : 0;
}

await main();
