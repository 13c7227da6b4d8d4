// Builds and packs the package, installs it into an empty project, checks the types and runs the tests there. Arguments: parts of names
// of test files.
import { execFileSync, spawnSync } from 'node:child_process';
import { readdirSync, rmSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { installPackage, packedModules, unpackComposer } from './packed.mjs';

const sdk = path.dirname(path.dirname(fileURLToPath(import.meta.url)));

execFileSync(process.execPath, [path.join(sdk, 'build.mjs')], { stdio: 'inherit' });
execFileSync(process.execPath, [path.join(sdk, 'node_modules/typescript/bin/tsc'), '-p', sdk], { stdio: 'inherit' });

const names = readdirSync(path.join(sdk, 'test'), { recursive: true }).filter((name) => /\.test\.tsx?$/.test(name));
const chosen = names.filter((name) => process.argv.length < 3 || process.argv.slice(2).some((part) => name.includes(part)));
const project = installPackage(sdk);
process.once('exit', () => rmSync(project, { recursive: true, force: true }));
if (chosen.some((name) => name.startsWith('example/'))) unpackComposer(path.join(sdk, '../composer'), project);
const built = path.join(project, '.built');
await build({
  entryPoints: chosen.map((name) => path.join(sdk, 'test', name)),
  outbase: path.join(sdk, 'test'),
  outdir: built,
  outExtension: { '.js': '.mjs' },
  bundle: true,
  packages: 'external',
  plugins: [packedModules(project, true)],
  platform: 'node',
  format: 'esm',
  target: 'node20',
  jsx: 'automatic',
  sourcemap: 'inline',
});
const files = readdirSync(built, { recursive: true }).filter((name) => name.endsWith('.test.mjs'));
const environment = { ...process.env, PARALLAX_SDK: sdk, PARALLAX_PACKED: project, NODE_OPTIONS: '--enable-source-maps' };
// One file at a time: each starts a server.
const flags = ['--test', '--test-concurrency=1', '--test-reporter=spec', '--import', path.join(sdk, 'test/next/async-storage.mjs')];
const { status } = spawnSync(process.execPath, [...flags, ...files.map((name) => path.join(built, name)).sort()], { stdio: 'inherit', env: environment });
process.exit(status ?? 1);
