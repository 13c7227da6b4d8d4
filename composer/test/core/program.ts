// The program `parallax`, and sites that it checks.
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Json, Vocabulary } from '../../src/core/index.js';

const BIN = process.env.PARALLAX_BIN ?? path.join(process.env.PARALLAX_COMPOSER!, '../target/debug/parallax');

export interface Report {
  errorCount: number;
  warningCount: number;
  errors: { file: string; pointer: string; title: string; expected: string; found: string }[];
}

/** Writes the files of a site to a new directory. */
function writeSite(files: Record<string, Json>): string {
  const site = mkdtempSync(path.join(tmpdir(), 'parallax-composer-site-'));
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(path.dirname(path.join(site, name)), { recursive: true });
    writeFileSync(path.join(site, name), JSON.stringify(content));
  }
  return site;
}

function runLint<T>(args: string[], env: Record<string, string> = {}): T {
  const { stdout, error, stderr } = spawnSync(BIN, ['lint', ...args, '--format', 'json'], {
    encoding: 'utf8',
    maxBuffer: 1 << 28,
    env: { ...process.env, ...env },
  });
  if (error || stdout === '') throw new Error(`${BIN} lint: ${error?.message ?? stderr}`);
  return JSON.parse(stdout) as T;
}

/** Writes the files of a site to a new directory, and returns the report of `parallax lint`. */
export function lint(files: Record<string, Json>): Report {
  const site = writeSite(files);
  try {
    return runLint([site]);
  } finally {
    rmSync(site, { recursive: true, force: true });
  }
}

/** Returns the states of the experiments that differ between two versions, in the newer version at a time in seconds since 1970. */
export function standingsAgainst(before: Record<string, Json>, files: Record<string, Json>, epoch: number): Record<string, string> {
  const [old, site] = [writeSite(before), writeSite(files)];
  try {
    type Document = { experiments: { key: string; standing: { after: string } }[] };
    const { experiments } = runLint<Document>([site, '--against', old], { SOURCE_DATE_EPOCH: String(epoch) });
    return Object.fromEntries(experiments.map(({ key, standing }) => [key, standing.after]));
  } finally {
    rmSync(old, { recursive: true, force: true });
    rmSync(site, { recursive: true, force: true });
  }
}

/** Returns the vocabulary that the program prints. Undefined if this program cannot print it. */
export function printedVocabulary(): Vocabulary | undefined {
  try {
    return JSON.parse(execFileSync(BIN, ['schema', 'conditions'], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })) as Vocabulary;
  } catch {
    return undefined;
  }
}
