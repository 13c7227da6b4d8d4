// Copies the module and the licences into the package. `build.mjs [MODULE]`: target/modules/author.wasm by default.
import { copyFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const here = path.dirname(fileURLToPath(import.meta.url));
const root = path.join(here, '../..');
const target = path.resolve(root, process.env.CARGO_TARGET_DIR ?? 'target');

for (const name of ['LICENSE-APACHE', 'LICENSE-MIT']) copyFileSync(path.join(root, name), path.join(here, name));
copyFileSync(process.argv[2] ?? path.join(target, 'modules/author.wasm'), path.join(here, 'lib/author.wasm'));
