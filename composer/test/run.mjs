// Builds and packs the package, installs it into an empty project, checks the types and runs the tests there. Arguments: parts of names
// of test files.
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const composer = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const run = (command, args, cwd = composer) => execFileSync(command, args, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] });

run(process.execPath, ['build.mjs']);
run(process.execPath, ['node_modules/typescript/bin/tsc', '-p', '.']);

/** Installs the packed package into an empty project, with the tools of the tests. Returns the directory of the project. */
function install() {
  const project = mkdtempSync(path.join(tmpdir(), 'parallax-composer-'));
  const tarball = run('npm', ['pack', '--silent', '--pack-destination', project]).trim();
  const { name, devDependencies } = JSON.parse(readFileSync(path.join(composer, 'package.json'), 'utf8'));
  const { '@octokit/openapi': _, ...tools } = devDependencies; // a link below: it has 390 MB
  const dependencies = { [name]: `file:./${tarball}`, ...tools };
  writeFileSync(path.join(project, 'package.json'), JSON.stringify({ private: true, type: 'module', dependencies }));
  run('npm', ['install', '--silent', '--no-audit', '--no-fund', '--prefer-offline'], project);
  mkdirSync(path.join(project, 'node_modules/@octokit'));
  symlinkSync(path.join(composer, 'node_modules/@octokit/openapi'), path.join(project, 'node_modules/@octokit/openapi'));
  return project;
}

const project = install();
process.once('exit', () => rmSync(project, { recursive: true, force: true }));
const installed = path.join(project, 'node_modules/@parallax/composer/dist');

/** Takes the modules of `src/` from the installed package. */
const packed = {
  name: 'packed',
  setup: ({ onResolve }) => onResolve({ filter: /^(\.\.?\/)+src\// }, ({ path: wanted }) => ({ path: path.join(installed, wanted.split('src/')[1]), external: true })),
};

const names = readdirSync(path.join(composer, 'test'), { recursive: true }).filter((name) => /\.test\.tsx?$/.test(name));
const chosen = names.filter((name) => process.argv.length < 3 || process.argv.slice(2).some((part) => name.includes(part)));
const built = path.join(project, '.built');
await build({
  entryPoints: chosen.map((name) => path.join(composer, 'test', name)),
  outbase: path.join(composer, 'test'),
  outdir: built,
  outExtension: { '.js': '.mjs' },
  bundle: true,
  packages: 'external',
  plugins: [packed],
  platform: 'node',
  format: 'esm',
  target: 'node20',
  jsx: 'automatic',
  sourcemap: 'inline',
});
const files = readdirSync(built, { recursive: true }).filter((name) => name.endsWith('.test.mjs'));
const env = { ...process.env, PARALLAX_COMPOSER: composer, NODE_OPTIONS: '--enable-source-maps' };
const flags = ['--test', '--test-concurrency=1', '--test-reporter=spec'];
const { status } = spawnSync(process.execPath, [...flags, ...files.map((name) => path.join(built, name)).sort()], { stdio: 'inherit', env });
process.exit(status ?? 1);
