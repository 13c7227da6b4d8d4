// Builds `parallax.js`, which the server embeds. The file is committed, so that the build of the server needs no Node.
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { build } from 'esbuild';

const sdk = path.dirname(fileURLToPath(import.meta.url));
export const TAG_FILE = path.join(sdk, 'parallax.js');

export async function buildTag() {
  const entryPoints = [path.join(sdk, 'src/tag.ts')];
  const { outputFiles } = await build({ entryPoints, bundle: true, minify: true, write: false, format: 'iife', target: 'es2022' });
  return outputFiles[0].text;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) writeFileSync(TAG_FILE, await buildTag());
