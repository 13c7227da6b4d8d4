// Copies the module and the licences into the package. PARALLAX_MODULES is the directory of the modules that `wasm/build` made,
// target/modules by default.
import { copyFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const here = path.dirname(fileURLToPath(import.meta.url));
const root = path.join(here, '../..');
const target = path.resolve(root, process.env.CARGO_TARGET_DIR ?? 'target');
const modules = process.env.PARALLAX_MODULES ?? path.join(target, 'modules');

for (const name of ['LICENSE-APACHE', 'LICENSE-MIT']) copyFileSync(path.join(root, name), path.join(here, name));
copyFileSync(path.join(modules, 'author.wasm'), path.join(here, 'lib/author.wasm'));
