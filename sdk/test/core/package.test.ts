import assert from 'node:assert/strict';
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { gzipSync } from 'node:zlib';
import { isUsableId, uuid } from '../../src/ids.js';
import { VERSION } from '../../src/version.js';

const sdk = process.env.PARALLAX_SDK!;
const manifest = JSON.parse(readFileSync(path.join(sdk, 'package.json'), 'utf8'));
const sizes = await import(pathToFileURL(path.join(sdk, 'test/sizes.mjs')).href);

const tag = await import(pathToFileURL(path.join(sdk, 'tag.mjs')).href);

const SIZES: [string, number, () => Promise<number>][] = [
  ['events', 3072, () => sizes.sizeOf(sizes.EVENTS)],
  ['events and client', 4096, () => sizes.sizeOf(sizes.EVENTS + sizes.CLIENT)],
  ['react/client beyond events and client', 1024, async () =>
    (await sizes.sizeOf(sizes.EVENTS + sizes.CLIENT + sizes.REACT, ['react'])) - (await sizes.sizeOf(sizes.EVENTS + sizes.CLIENT))],
  ['the proxy of Next.js', 8192, () => sizes.sizeOf(sizes.PROXY, ['next/server.js'])],
  ['parallax.js', 4096, async () => gzipSync(readFileSync(tag.TAG_FILE), { level: 9 }).length],
];
for (const [name, limit, measure] of SIZES) {
  test(`${name} take at most ${limit} bytes`, async () => {
    const bytes = await measure();
    console.log(`${name}: ${bytes} bytes of ${limit}`);
    assert.ok(bytes <= limit, `${name}: ${bytes} bytes, the limit is ${limit}`);
  });
}

test('react/client begins with its directive, and does not import Next.js', () => {
  const text = readFileSync(path.join(sdk, 'dist/react-client.js'), 'utf8');
  assert.match(text, /^["']use client["'];/);
  assert.doesNotMatch(text, /from "next/);
});

test('parallax.js is that of this source; `npm run tag` writes it', async () => {
  assert.equal(readFileSync(tag.TAG_FILE, 'utf8'), await tag.buildTag());
});

test('the version constant is that of package.json', () => assert.equal(VERSION, manifest.version));

test('the package has no runtime dependency, and every export exists', () => {
  assert.equal(manifest.dependencies, undefined);
  for (const { types, default: module } of Object.values(manifest.exports) as { types: string; default: string }[]) {
    for (const file of [types, module]) assert.ok(existsSync(path.join(sdk, file)), `${file} is missing`);
  }
});

test('server code is not in the browser part', () => {
  for (const name of readdirSync(path.join(sdk, 'dist'), { recursive: true }) as string[]) {
    const text = name.endsWith('.js') ? readFileSync(path.join(sdk, 'dist', name), 'utf8') : '';
    if (['browser.js', 'client.js', 'queue.js', 'sender.js', 'react-client.js'].includes(name)) assert.doesNotMatch(text, /from "(node:|next)/);
  }
});

test('a UUID is of version 4, without crypto.randomUUID', () => {
  const ids = Array.from({ length: 100 }, uuid);
  for (const id of ids) assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  assert.equal(new Set(ids).size, 100);
  assert.ok(isUsableId(ids[0]!));
});
