// `parallax types`: tsc accepts the types of any site, and they accept the values of that site.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { runParallax } from '../server.js';

const sdk = process.env.PARALLAX_SDK!;
const typesOf = (site: string) => runParallax('types', site);

/** A generator of numbers from 0 to below `end`, the same in each run. */
function dice(seed: number) {
  return (end: number) => {
    seed = (Math.imul(seed ^ (seed >>> 15), 0x2c1b3c6d) + 0x9e3779b9) | 0;
    return ((seed >>> 8) / 2 ** 24 * end) | 0;
  };
}

// Without `constructor` and similar names: tsc finds them in every object, so an object that lacks one has it with another type.
const NAMES = ['a', 'b', 'new', 'get', 'a b', 'a-b', '0', '-1', '', 'ü', '"', "'", '\\', '`', '${x}', '*/', '</script>', '\n', '\u2028', '\0'];
const KINDS = ['A', 'B', 'Card', 'a b', '"', '`${1}`', 'class', '1', 'ö\\', 'export', '*/'];

type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

function value(roll: (end: number) => number, depth: number): Json {
  const kind = roll(depth > 0 ? 7 : 5);
  if (kind < 5) return [null, roll(2) === 1, roll(1e6) - 5e5, roll(1000) / 8, NAMES[roll(NAMES.length)]!][kind]!;
  const length = roll(4);
  if (kind === 5) return Array.from({ length }, () => value(roll, depth - 1));
  return object(roll, depth - 1);
}

function object(roll: (end: number) => number, depth: number): { [name: string]: Json } {
  return Object.fromEntries(Array.from({ length: roll(5) }, () => [NAMES[roll(NAMES.length)]!, value(roll, depth)]));
}

/** Writes a random site, and returns the statements that its types must accept, or refuse after `@ts-expect-error`. */
function writeSite(site: string, roll: (end: number) => number): string[] {
  const write = (file: string, json: unknown) => writeFileSync(path.join(site, file), JSON.stringify(json));
  const statements: string[] = [];
  const accept = (type: string, json: unknown) => statements.push(`export const value${statements.length}: ${type} = ${JSON.stringify(json)};`);
  for (const directory of ['routes', 'content']) mkdirSync(path.join(site, directory), { recursive: true });
  write('site.json', { site: 'a', trackingId: 'track_a', name: 'A' });
  const items = Array.from({ length: roll(6) }, (_, id) => ({ id: `${id}`, type: 't', fields: object(roll, 2) }));
  write('content/items.json', items);
  const values = ['x', 'a"b', '`', '\\', '*/'];
  const params = { one: { type: 'string', enum: values }, 'two-2': { type: 'number', optional: true }, three: { type: 'number', enum: [1, -0.5, 1e21] } };
  write('queries.json', { all: { collection: 'items' }, 'with-params': { collection: 'items', params, select: ['a', 'ü'] } });
  const zone = (depth: number): Json => Array.from({ length: roll(4) }, (_, id) => {
    const kind = KINDS[roll(KINDS.length)]!;
    const props = object(roll, 3);
    accept(`Components[${JSON.stringify(kind)}]`, props);
    return { id: `n${id}`, type: kind, props, ...(depth > 0 && roll(2) ? { zones: { inner: zone(depth - 1) } } : {}) };
  });
  const routes = ['/', '/a', '/ö å', '/p/:id', '/`/*', '/a\\b', '/${c}/:x/d', "/'", '/"'].slice(0, 1 + roll(9));
  routes.forEach((route, id) => {
    write(`routes/${id}.json`, { path: route, layout: { root: { props: {} }, zones: { main: zone(2), hero: { default: zone(1), variants: { b: zone(1) }, rules: [] } } } });
    accept('Path', route.replace(/:\w+|\*/g, 'any`$\\thing'));
  });
  for (const { fields } of items) accept("Queries['all']['fields']", fields);
  for (const one of values) accept("Queries['with-params']['params']", { one, three: -0.5 });
  statements.push('// @ts-expect-error', "export const path: Path = 'no path';");
  statements.push('// @ts-expect-error', "export const query: Queries['none'] = {};");
  statements.push('// @ts-expect-error', "export const params: Queries['with-params']['params'] = { one: 'y', three: 1 };");
  return statements;
}

test('tsc accepts the types of random sites, and the types accept their values', () => {
  const home = mkdtempSync(path.join(tmpdir(), 'parallax-types-'));
  try {
    const files = Array.from({ length: 40 }, (_, seed) => {
      const site = path.join(home, `site-${seed}`);
      const statements = writeSite(site, dice(seed + 1));
      const file = path.join(home, `site-${seed}.ts`);
      writeFileSync(file, [typesOf(site), ...statements].join('\n'));
      return file;
    });
    const tsc = path.join(sdk, 'node_modules/typescript/bin/tsc');
    const flags = ['--noEmit', '--strict', '--exactOptionalPropertyTypes', '--target', 'es2022', '--module', 'esnext'];
    const { status, stdout } = spawnSync(process.execPath, [tsc, ...flags, ...files], { encoding: 'utf8', cwd: home });
    assert.equal(status, 0, stdout.slice(0, 4000));
  } finally {
    rmSync(home, { recursive: true, force: true });
  }
});
