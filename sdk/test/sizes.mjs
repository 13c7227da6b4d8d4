// Measures what a page downloads: bundled and minified by esbuild for ES2022, gzip -9.
import { gzipSync } from 'node:zlib';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const sdk = path.dirname(path.dirname(fileURLToPath(import.meta.url)));

/** Returns the compressed size of a module that only imports these names and uses them. */
export async function sizeOf(code, external = []) {
  const { outputFiles } = await build({
    stdin: { contents: code, resolveDir: path.join(sdk, 'src'), loader: 'ts' },
    bundle: true,
    minify: true,
    write: false,
    format: 'esm',
    target: 'es2022',
    jsx: 'automatic',
    external,
    define: { 'process.env.NODE_ENV': '"production"' },
  });
  return gzipSync(outputFiles[0].contents, { level: 9 }).length;
}

export const EVENTS = "export { createEvents } from './browser.js';";
export const CLIENT = "export { createClient } from './client.js';";
export const REACT = "export { ParallaxEvents, PageView, useMore, useParallax } from './react-client.js';";
