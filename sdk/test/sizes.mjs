// Measures the bytes that a page downloads: bundled and minified by esbuild for ES2022, gzip -9.
import { gzipSync } from 'node:zlib';
import { build } from 'esbuild';

/** Returns the size of a module that only imports names of packages and uses them, minified and compressed. */
export async function measure(code, resolveDir, external = []) {
  const { outputFiles } = await build({
    stdin: { contents: code, resolveDir },
    bundle: true,
    minify: true,
    write: false,
    format: 'esm',
    target: 'es2022',
    external,
    define: { 'process.env.NODE_ENV': '"production"' },
  });
  const { contents } = outputFiles[0];
  return { minified: contents.length, gzip: gzipSync(contents, { level: 9 }).length };
}

export const EVENTS = "export { createEvents } from '@parallax/sdk/browser';";
export const CLIENT = "export { createClient } from '@parallax/sdk';";
export const REACT = "export { ParallaxEvents, PageView, useMore, useParallax } from '@parallax/sdk/react/client';";
export const PROXY = "export { withParallax } from '@parallax/sdk/next';";
