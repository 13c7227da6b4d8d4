// Writes `dist`: one JavaScript module and one declaration file for each source file.
import { execFileSync } from 'node:child_process';
import { readdirSync, rmSync } from 'node:fs';
import path from 'node:path';
import { build } from 'esbuild';

const here = import.meta.dirname ?? path.dirname(new URL(import.meta.url).pathname);

/** Returns the source files, for each of which `dist` has a module. */
function sources() {
  const names = readdirSync(path.join(here, 'src'), { recursive: true });
  return names.filter((name) => /\.tsx?$/.test(name)).map((name) => path.join(here, 'src', name));
}

rmSync(path.join(here, 'dist'), { recursive: true, force: true });
await build({
  entryPoints: sources(),
  outbase: path.join(here, 'src'),
  outdir: path.join(here, 'dist'),
  format: 'esm',
  target: 'es2022',
  jsx: 'automatic',
  logLevel: 'warning',
});
execFileSync(process.execPath, [path.join(here, 'node_modules/typescript/bin/tsc'), '-p', path.join(here, 'tsconfig.build.json')], { stdio: 'inherit' });
