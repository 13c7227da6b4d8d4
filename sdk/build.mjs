// Writes `dist`: one JavaScript module with a source map and one declaration file for each source file, `edge.wasm`, which decides in
// process, and `author.wasm`, the server in memory of `@parallax/sdk/testing`. Copies the licences. PARALLAX_MODULES is the directory of
// the modules that `wasm/build` made, target/modules by default.
import { execFileSync } from 'node:child_process';
import { copyFileSync, existsSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { gzipSync } from 'node:zlib';
import { build } from 'esbuild';

const here = import.meta.dirname ?? path.dirname(new URL(import.meta.url).pathname);

/** Returns the source files, for each of which `dist` has a module. */
function sources() {
  const names = readdirSync(path.join(here, 'src'), { recursive: true });
  return names.filter((name) => /(?<!\.d)\.tsx?$/.test(name)).map((name) => path.join(here, 'src', name));
}

for (const name of ['LICENSE-APACHE', 'LICENSE-MIT']) copyFileSync(path.join(here, '..', name), path.join(here, name));
rmSync(path.join(here, 'dist'), { recursive: true, force: true });
await build({
  entryPoints: sources(),
  outbase: path.join(here, 'src'),
  outdir: path.join(here, 'dist'),
  format: 'esm',
  target: 'es2022',
  // Keeps `process.env.NODE_ENV`, which the bundler of the site or Node decides. The default platform replaces it by "development".
  platform: 'neutral',
  jsx: 'automatic',
  sourcemap: true,
  logLevel: 'warning',
});
execFileSync(process.execPath, [path.join(here, 'node_modules/typescript/bin/tsc'), '-p', path.join(here, 'tsconfig.build.json')], { stdio: 'inherit' });

const target = process.env.CARGO_TARGET_DIR ?? path.join(here, '../target');
const modules = process.env.PARALLAX_MODULES ?? path.join(target, 'modules');

/** Returns the path of a module, or null with a warning if `wasm/build` has not made it. */
function moduleFile(name, entry) {
  const file = path.join(modules, name);
  if (existsSync(file)) return file;
  console.warn(`build.mjs: ${file} is missing, so the package has no ${entry}; run wasm/build first, or set PARALLAX_MODULES.`);
  return null;
}

const author = moduleFile('author.wasm', '@parallax/sdk/testing');
if (author) copyFileSync(author, path.join(here, 'dist/author.wasm'));
const edge = moduleFile('edge.wasm', '@parallax/sdk/local');
if (edge) {
  copyFileSync(edge, path.join(here, 'dist/edge.wasm'));
  writeFileSync(path.join(here, 'dist/edge.wasm.d.ts'), 'declare const module: WebAssembly.Module;\nexport default module;\n');
  // Bundlers differ in the path of a file beside a module. A text needs none.
  const text = gzipSync(readFileSync(edge), { level: 9 }).toString('base64');
  writeFileSync(path.join(here, 'dist/local/edge-module.js'), `export const EDGE_MODULE = '${text}';\n`);
}
