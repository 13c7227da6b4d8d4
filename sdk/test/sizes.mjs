// Measures the bytes that a page downloads: bundled and minified by esbuild for ES2022, gzip -9.
import { gzipSync } from 'node:zlib';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const sdk = path.dirname(path.dirname(fileURLToPath(import.meta.url)));

/** Returns the compressed size of a module that only imports these names and uses them. */
export async function sizeOf(code, external = []) {
  return (await measure(code, external)).gzip;
}

/** Returns the size of such a module, minified and compressed. The paths of its imports are relative to `resolveDir`. */
export async function measure(code, external = [], resolveDir = path.join(sdk, 'src')) {
  const { outputFiles } = await build({
    stdin: { contents: code, resolveDir, loader: 'ts' },
    bundle: true,
    minify: true,
    write: false,
    format: 'esm',
    target: 'es2022',
    jsx: 'automatic',
    external,
    define: { 'process.env.NODE_ENV': '"production"' },
  });
  const { contents } = outputFiles[0];
  return { minified: contents.length, gzip: gzipSync(contents, { level: 9 }).length };
}

export const EVENTS = "export { createEvents } from './browser.js';";
export const CLIENT = "export { createClient } from './client.js';";
export const REACT = "export { ParallaxEvents, PageView, useMore, useParallax } from './react-client.js';";
export const PROXY = "export { withParallax } from './next/proxy.js';";
