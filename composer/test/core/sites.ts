// The demo site, and the example site beside the public cases.
import { readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import type { Json } from '../../src/core/index.js';

export const DEMO = path.join(process.env.PARALLAX_COMPOSER!, '../snapshots/demo');
const CASES = process.env.PARALLAX_CASES;

/** Returns the files of a site by their paths. */
export function filesOf(site: string): Record<string, Json> {
  const names = readdirSync(site, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.json'));
  return Object.fromEntries(names.sort().map((name) => [name, JSON.parse(readFileSync(path.join(site, name), 'utf8')) as Json]));
}

/** Returns the public cases of GrowthBook. Prints a note and returns undefined if `PARALLAX_CASES` is not set. */
export function growthbookCases(): Record<string, Json[][]> | undefined {
  if (CASES) return JSON.parse(readFileSync(path.join(CASES, 'growthbook/cases.json'), 'utf8')) as Record<string, Json[][]>;
  console.log('skipped: PARALLAX_CASES is not set');
  return undefined;
}

/** Returns the directories of all sites that the tests have. */
export const sites = () => (CASES ? [DEMO, path.join(CASES, '../example-site')] : [DEMO]);
