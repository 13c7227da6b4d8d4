import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { gzipSync } from 'node:zlib';
import { isUsableId, uuid } from '../../src/ids.js';
import { VERSION } from '../../src/version.js';

const sdk = process.env.PARALLAX_SDK!;
/** The project with the packed package, and the package in it. */
const project = process.env.PARALLAX_PACKED!;
const installed = path.join(project, 'node_modules/@parallax/sdk');
const manifest = JSON.parse(readFileSync(path.join(installed, 'package.json'), 'utf8'));
const sizes = await import(pathToFileURL(path.join(sdk, 'test/sizes.mjs')).href);

const tag = await import(pathToFileURL(path.join(sdk, 'tag.mjs')).href);

const sizeOf = async (code: string, external: string[] = []): Promise<number> => (await sizes.measure(code, project, external)).gzip;
const NEXT = ['next/cache.js', 'next/headers.js', 'next/server.js'];
const SIZES: [string, number, () => Promise<number>][] = [
  ['events', 3712, () => sizeOf(sizes.EVENTS)],
  ['events and client', 4736, () => sizeOf(sizes.EVENTS + sizes.CLIENT)],
  ['react/client beyond events and client', 1024, async () =>
    (await sizeOf(sizes.EVENTS + sizes.CLIENT + sizes.REACT, ['react'])) - (await sizeOf(sizes.EVENTS + sizes.CLIENT))],
  ['the proxy of Next.js', 8192, () => sizeOf(sizes.PROXY, NEXT)],
  ['parallax.js', 4224, async () => gzipSync(readFileSync(tag.TAG_FILE), { level: 9 }).length],
];
for (const [name, limit, measure] of SIZES) {
  test(`${name} take at most ${limit} bytes`, async () => {
    const bytes = await measure();
    console.log(`${name}: ${bytes} bytes of ${limit}`);
    assert.ok(bytes <= limit, `${name}: ${bytes} bytes, the limit is ${limit}`);
  });
}

test('react/client begins with its directive, and does not import Next.js', () => {
  const text = readFileSync(path.join(installed, 'dist/react-client.js'), 'utf8');
  assert.match(text, /^["']use client["'];/);
  assert.doesNotMatch(text, /from "next/);
});

test('parallax.js is that of this source; `npm run tag` writes it', async () => {
  assert.equal(readFileSync(tag.TAG_FILE, 'utf8'), await tag.buildTag());
});

test('the version constant is that of package.json', () => assert.equal(VERSION, manifest.version));

test('the package has no runtime dependency, and every export exists', () => {
  assert.equal(manifest.dependencies, undefined);
  for (const { types, default: module } of Object.values(manifest.exports) as { types?: string; default: string }[]) {
    // A module of WebAssembly has no types.
    const files = types === undefined ? [module] : [types, module];
    for (const file of files) assert.ok(existsSync(path.join(installed, file)), `${file} is missing`);
  }
});

test('TypeScript without `exports`, as with the resolution `node10`, finds the types of each export', () => {
  for (const [entry, { types }] of Object.entries(manifest.exports) as [string, { types?: string }][]) {
    if (types === undefined) continue;
    assert.equal(entry === '.' ? manifest.types : manifest.typesVersions['*'][entry.slice(2)]?.[0], types, entry);
  }
});

test('server code is not in the browser part', () => {
  for (const name of readdirSync(path.join(installed, 'dist'), { recursive: true }) as string[]) {
    const text = name.endsWith('.js') ? readFileSync(path.join(installed, 'dist', name), 'utf8') : '';
    if (['browser.js', 'client.js', 'queue.js', 'sender.js', 'react-client.js'].includes(name)) assert.doesNotMatch(text, /from "(node:|next)/);
  }
});

/** Runs a module in the project, where it imports the package by its name. Returns its output. */
function runInProject(code: string, environment: 'production' | 'development'): string {
  const flags = ['--import', path.join(sdk, 'test/next/async-storage.mjs'), '--input-type=module', '-e', code];
  return execFileSync(process.execPath, flags, { cwd: project, encoding: 'utf8', env: { ...process.env, NODE_ENV: environment } }).trim();
}

test('the environment of the site decides about a box for an unknown component, and not that of the build', () => {
  const code = `import { Layout } from '@parallax/sdk/react';
    import { createElement } from 'react';
    import { renderToStaticMarkup } from 'react-dom/server';
    const tree = { route: '/', layout: { zones: { main: [{ id: 'a', type: 'Nope', props: {} }] } } };
    console.log(renderToStaticMarkup(createElement(Layout, { tree, components: {} })));`;
  assert.equal(runInProject(code, 'production'), '<section data-zone="main"></section>');
  assert.match(runInProject(code, 'development'), /No component for node type/);
});

test('a proxy whose Parallax is silent waits for the deadline of production, and in development longer', () => {
  // A timer fires at once, and its delay is kept.
  const code = `import { createClient } from '@parallax/sdk';
    import { withParallax } from '@parallax/sdk/next';
    import { NextRequest } from 'next/server.js';
    const delays = [];
    const later = setTimeout;
    globalThis.setTimeout = (run, delay) => (delays.push(delay), later(run, 0));
    const silent = (_, { signal }) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
    const proxy = withParallax(createClient({ edgeUrl: 'http://edge.example', trackingId: 'track_demo', fetch: silent }));
    await proxy(new NextRequest('http://localhost:3000/'), { waitUntil() {} });
    console.log(delays[0]);`;
  const waitMs = (environment: 'production' | 'development') => Math.ceil(Number(runInProject(code, environment)) / 50) * 50;
  assert.deepEqual([waitMs('production'), waitMs('development')], [150, 2000]);
});

test('the package has its licences, source maps with the sources, and a README whose links work inside it', () => {
  for (const name of ['LICENSE-APACHE', 'LICENSE-MIT']) assert.ok(existsSync(path.join(installed, name)), name);
  for (const name of readdirSync(path.join(installed, 'dist'), { recursive: true }) as string[]) {
    if (!name.endsWith('.js') || name === 'local/edge-module.js') continue; // the module is no source text
    const map = JSON.parse(readFileSync(path.join(installed, 'dist', `${name}.map`), 'utf8'));
    assert.ok(map.sourcesContent.every((text: string) => text.length > 0), name);
  }
  const readme = readFileSync(path.join(installed, 'README.md'), 'utf8');
  for (const [, target] of readme.matchAll(/\]\(([^)#]+)[^)]*\)/g)) assert.ok(/^https?:/.test(target!) || existsSync(path.join(installed, target!)), target);
});

test('a UUID is of version 4, without crypto.randomUUID', () => {
  const ids = Array.from({ length: 100 }, uuid);
  for (const id of ids) assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  assert.equal(new Set(ids).size, 100);
  assert.ok(isUsableId(ids[0]!));
});
