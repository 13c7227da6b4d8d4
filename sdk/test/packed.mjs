// The packed package, as the tests use it: installed into an empty project.
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

/** Packs the package and installs the tarball into an empty project, with the tools of the tests. Returns the directory of the project. */
export function installPackage(sdk) {
  const project = mkdtempSync(path.join(tmpdir(), 'parallax-packed-'));
  const tarball = execFileSync('npm', ['pack', '--silent', '--pack-destination', project], { cwd: sdk, encoding: 'utf8' }).trim();
  const { name, devDependencies } = JSON.parse(readFileSync(path.join(sdk, 'package.json'), 'utf8'));
  const { workerd, ...tools } = devDependencies; // the tests run it from here: it has 120 MB
  const manifest = { private: true, type: 'module', dependencies: { [name]: `file:./${tarball}`, ...tools } };
  writeFileSync(path.join(project, 'package.json'), JSON.stringify(manifest));
  execFileSync('npm', ['install', '--silent', '--no-audit', '--no-fund', '--prefer-offline'], { cwd: project, stdio: 'inherit' });
  return project;
}

/** Builds and packs the composer, and unpacks it beside the SDK. The example and the sites of the tests have its dependencies. */
export function unpackComposer(composer, project) {
  execFileSync(process.execPath, [path.join(composer, 'build.mjs')], { stdio: 'inherit' });
  const tarball = execFileSync('npm', ['pack', '--silent', '--pack-destination', project], { cwd: composer, encoding: 'utf8' }).trim();
  const directory = path.join(project, 'node_modules/@parallax/composer');
  mkdirSync(directory);
  execFileSync('tar', ['-xzf', path.join(project, tarball), '-C', directory, '--strip-components=1']);
}

/**
 * An esbuild plugin that takes the modules of `src/` from the installed package: an entry point by its public name, and another module
 * by its file. `isExternal` leaves them out of the bundle.
 */
export function packedModules(project, isExternal) {
  const installed = path.join(project, 'node_modules/@parallax/sdk');
  const { name, exports } = JSON.parse(readFileSync(path.join(installed, 'package.json'), 'utf8'));
  const entries = Object.entries(exports).map(([entry, { default: file }]) => [path.join(installed, file), name + entry.slice(1)]);
  const publicNames = new Map(entries);
  return {
    name: 'packed-modules',
    setup(build) {
      build.onResolve({ filter: /^(\.\.?\/)+src\// }, ({ path: wanted, kind }) => {
        const file = path.join(installed, 'dist', wanted.split('src/')[1]);
        const published = publicNames.get(file);
        if (isExternal) return { path: published ?? file, external: true };
        return published ? build.resolve(published, { kind, resolveDir: project }) : { path: file };
      });
    },
  };
}
