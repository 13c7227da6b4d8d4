// Small sites in temporary directories, and processes that save them.
import { execFileSync, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, realpathSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Change, Save } from '../../src/server/storage.js';

const ROOT = path.resolve(process.env.PARALLAX_COMPOSER!, '..');
export const AUTHOR = { name: 'Anna Example', email: 'anna@example.com' };
/** The server refuses unknown variables of its prefix, such as those of these tests. */
export const ENVIRONMENT = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('PARALLAX_'))) as NodeJS.ProcessEnv;

/** Returns the program: that of PARALLAX_BIN, else the one that `cargo build` made. */
export function program(): string {
  const places = [process.env.PARALLAX_BIN, path.join(ROOT, 'target/debug/parallax'), path.join(ROOT, 'target/release/parallax')];
  const found = places.find((place) => place && existsSync(place));
  if (!found) throw new Error(`No program at ${places.filter(Boolean).join(', ')}; build one with cargo, or set PARALLAX_BIN.`);
  return found;
}

export function parallax(...words: string[]): string {
  return execFileSync(program(), words, { encoding: 'utf8', env: ENVIRONMENT, stdio: ['ignore', 'pipe', 'pipe'] });
}

/** Makes a directory that is removed at the end. */
export function temporaryDirectory(): string {
  const directory = realpathSync(mkdtempSync(path.join(tmpdir(), 'parallax-composer-site-')));
  process.once('exit', () => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

export const etagOf = (text: string): string => createHash('sha256').update(text).digest('hex');
export const page = (route: string, text = 'Hello'): string =>
  `${JSON.stringify({ path: route, layout: { root: { props: { title: text } }, zones: { main: [] } } }, null, 2)}\n`;

/** The files of a small site that compiles. */
export const SMALL: Record<string, string> = {
  'site.json': `${JSON.stringify({ site: 'small', trackingId: 'track_small', name: 'Small', timeZone: 'UTC' })}\n`,
  'audiences.json': '{}\n',
  'routes/index.json': page('/'),
  'routes/a.json': page('/a'),
  'routes/b.json': page('/b'),
  'routes/shop/c.json': page('/shop/c'),
};

export function write(directory: string, files: Record<string, string>): void {
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(path.dirname(path.join(directory, name)), { recursive: true });
    writeFileSync(path.join(directory, name), text);
  }
}

export function smallSite(files: Record<string, string> = SMALL): string {
  const directory = temporaryDirectory();
  write(directory, files);
  return directory;
}

/** Returns the texts of all files of a directory, also of hidden ones, but not those of git. */
export function tree(directory: string): Record<string, string> {
  const names = readdirSync(directory, { recursive: true }) as string[];
  const files = names.filter((name) => !name.startsWith('.git') && statSync(path.join(directory, name)).isFile()).sort();
  return Object.fromEntries(files.map((name) => [name, readFileSync(path.join(directory, name), 'utf8')]));
}

export function change(name: string, text: string | null, old: string | null): Change {
  return { path: name, text, etag: old === null ? null : etagOf(old) };
}

export function saveOf(...changes: Change[]): Save {
  return { base: '', changes, message: 'Change pages', author: AUTHOR };
}

/** The five changes of the tests with kills: of three files, a new one in a new directory, and a removal. */
export const FIVE: Save = saveOf(
  change('routes/a.json', page('/a', 'new'), SMALL['routes/a.json']!),
  change('routes/b.json', page('/b', 'new'), SMALL['routes/b.json']!),
  change('site.json', SMALL['site.json']!.replace('Small', 'New'), SMALL['site.json']!),
  change('routes/more/d.json', page('/more/d'), null),
  change('routes/shop/c.json', null, SMALL['routes/shop/c.json']!),
);

/** Returns the files after a save. */
export function after(files: Record<string, string>, save: Save): Record<string, string> {
  const next = { ...files };
  for (const { path: name, text } of save.changes) {
    if (text === null) delete next[name];
    else next[name] = text;
  }
  return Object.fromEntries(Object.entries(next).sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** The words of a process that runs a module with the functions of the package. `argv` are its arguments. */
export function script(code: string, ...argv: string[]): string[] {
  const head = `import * as fs from 'node:fs'; import { fileStorage, StorageError } from ${JSON.stringify(import.meta.resolve('@parallax/composer/server'))};`;
  return [process.execPath, '--input-type=module', '-e', `${head}\nconst argv = process.argv.slice(1);\n${code}`, '--', ...argv];
}

export interface Ended {
  code: number | null;
  signal: NodeJS.Signals | null;
  output: string;
}

/** Runs a process to its end. */
export function ended(words: string[]): Promise<Ended> {
  const child = spawn(words[0]!, words.slice(1), { stdio: ['ignore', 'pipe', 'inherit'] });
  let output = '';
  child.stdout.on('data', (part) => (output += part));
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code, signal) => resolve({ code, signal, output }));
  });
}
