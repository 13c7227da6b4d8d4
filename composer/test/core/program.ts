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

/** Writes the files of a site to a new directory, and returns the report of `parallax lint`. */
export function lint(files: Record<string, Json>): Report {
  const site = mkdtempSync(path.join(tmpdir(), 'parallax-composer-site-'));
  try {
    for (const [name, content] of Object.entries(files)) {
      mkdirSync(path.dirname(path.join(site, name)), { recursive: true });
      writeFileSync(path.join(site, name), JSON.stringify(content));
    }
    const { stdout, error, stderr } = spawnSync(BIN, ['lint', site, '--format', 'json'], { encoding: 'utf8', maxBuffer: 1 << 28 });
    if (error || stdout === '') throw new Error(`${BIN} lint: ${error?.message ?? stderr}`);
    return JSON.parse(stdout) as Report;
  } finally {
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
