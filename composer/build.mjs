// Writes `dist`: one JavaScript module with a source map and one declaration file for each source file. Copies the licences.
import { execFileSync } from 'node:child_process';
import { copyFileSync, readdirSync, rmSync } from 'node:fs';
import path from 'node:path';
import { build } from 'esbuild';

const here = import.meta.dirname ?? path.dirname(new URL(import.meta.url).pathname);
const names = readdirSync(path.join(here, 'src'), { recursive: true }).filter((name) => /(?<!\.d)\.tsx?$/.test(name));

for (const name of ['LICENSE-APACHE', 'LICENSE-MIT']) copyFileSync(path.join(here, '..', name), path.join(here, name));
rmSync(path.join(here, 'dist'), { recursive: true, force: true });
await build({
  entryPoints: names.map((name) => path.join(here, 'src', name)),
  outbase: path.join(here, 'src'),
  outdir: path.join(here, 'dist'),
  format: 'esm',
  target: 'es2022',
  platform: 'neutral',
  jsx: 'automatic',
  sourcemap: true,
  logLevel: 'warning',
});
copyFileSync(path.join(here, 'src/editor/composer.css'), path.join(here, 'dist/composer.css'));
execFileSync(process.execPath, [path.join(here, 'node_modules/typescript/bin/tsc'), '-p', path.join(here, 'tsconfig.build.json')], { stdio: 'inherit' });
