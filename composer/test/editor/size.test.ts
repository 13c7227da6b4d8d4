import assert from 'node:assert/strict';
import path from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { build } from 'esbuild';

/** The project of the tests, with the packed package. */
const PROJECT = path.join(path.dirname(fileURLToPath(import.meta.url)), '../..');
/** Bytes of scripts and styles, by gzip, over an empty page with React. */
const BYTES_MAX = 220_000;

test('the editor adds at most 220 kB to an empty page, and the parts that few visits need come later', async () => {
  const { metafile, outputFiles } = await build({
    stdin: { contents: "export * from '@parallax/composer'; import '@puckeditor/core/no-external.css'; import '@parallax/composer/composer.css';", resolveDir: PROJECT },
    bundle: true,
    splitting: true,
    format: 'esm',
    minify: true,
    write: false,
    metafile: true,
    absWorkingDir: PROJECT,
    outdir: path.join(PROJECT, '.size'),
    external: ['react', 'react-dom', 'react/*', 'react-dom/*'],
    define: { 'process.env.NODE_ENV': '"production"' },
    // The document of the composer says how an app leaves it out.
    plugins: [{ name: 'alias', setup: ({ onResolve, onLoad }) => (onResolve({ filter: /^object-hash$/ }, () => ({ path: 'hash', namespace: 'alias' })), onLoad({ filter: /.*/, namespace: 'alias' }, () => ({ contents: 'export default (text) => text;' }))) }],
  });
  const { outputs } = metafile;
  const [entry] = Object.entries(outputs).find(([, { entryPoint }]) => entryPoint?.includes('stdin'))!;
  const first = new Set<string>();
  const visit = (name: string): void => {
    if (first.has(name)) return;
    first.add(name);
    outputs[name]!.imports.filter(({ kind, external }) => kind === 'import-statement' && !external).forEach((part) => visit(part.path));
    if (outputs[name]!.cssBundle) first.add(outputs[name]!.cssBundle!);
  };
  visit(entry);
  const bytes = (names: Iterable<string>) => [...names].reduce((sum, name) => sum + gzipSync(outputFiles.find((file) => file.path === path.join(PROJECT, name))!.contents).length, 0);
  const later = Object.keys(outputs).filter((name) => !first.has(name));
  console.log(`the composer: ${bytes(first)} bytes, and ${bytes(later)} later, by gzip`);
  assert.ok(bytes(first) <= BYTES_MAX, `${bytes(first)}`);
  const sourcesOf = (names: Iterable<string>) => [...names].flatMap((name) => Object.keys(outputs[name]!.inputs));
  for (const part of ['experiments.js', 'audiences.js', 'zone-editor.js', 'preview.js']) {
    assert.ok(sourcesOf(later).some((source) => source.endsWith(`editor/${part}`)) && !sourcesOf(first).some((source) => source.endsWith(`editor/${part}`)), part);
  }
});
