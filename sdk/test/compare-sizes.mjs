// Prints the table of sizes in docs/sdk.md: this SDK and others, each measured as `sizes.mjs` measures ours. Not a part of the tests.
//
//     npm run build && node test/compare-sizes.mjs [UMAMI]
//
// Installs the packages below into a temporary directory. UMAMI is src/tracker/index.js of a checkout of umami-software/umami, whose
// tracker is not on npm.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { TAG_FILE } from '../tag.mjs';
import { installPackage } from './packed.mjs';
import { CLIENT, EVENTS, REACT, measure } from './sizes.mjs';

/** The smallest useful import of each package. */
const OTHERS = [
  ['@plausible-analytics/tracker', '0.4.6', "export { init, track } from '@plausible-analytics/tracker';"],
  ['@growthbook/growthbook', '1.8.0', "export { GrowthBook } from '@growthbook/growthbook';"],
  ['@segment/analytics-next', '1.84.3', "export { AnalyticsBrowser } from '@segment/analytics-next';"],
  ['@ninetailed/experience.js', '7.26.0', "export { Ninetailed } from '@ninetailed/experience.js';"],
  ['posthog-js', '1.449.2', "export { default } from 'posthog-js/dist/module.slim';", 'slim'],
  ['posthog-js', '1.449.2', "export { default } from 'posthog-js';"],
];

function print(name, version, { minified, gzip }) {
  const number = (bytes) => bytes.toLocaleString('en');
  console.log(`| ${name} | ${version} | ${number(minified)} | ${number(gzip)} |`);
}

const sdk = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const project = installPackage(sdk);
const home = mkdtempSync(path.join(tmpdir(), 'parallax-sizes-'));
try {
  writeFileSync(path.join(home, 'package.json'), '{"private":true}');
  const packages = [...new Set(OTHERS.map(([name, version]) => `${name}@${version}`))];
  const flags = ['--ignore-scripts', '--legacy-peer-deps', '--no-audit', '--no-fund', '--silent'];
  execFileSync('npm', ['install', ...flags, ...packages], { cwd: home, stdio: 'inherit' });
  const own = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')).version;
  const tag = readFileSync(TAG_FILE);
  print('events', own, await measure(EVENTS, project));
  print('`parallax.js`', own, { minified: tag.length, gzip: gzipSync(tag, { level: 9 }).length });
  print('events and client', own, await measure(EVENTS + CLIENT, project));
  print('events, client and `react/client`', own, await measure(EVENTS + CLIENT + REACT, project, ['react']));
  if (process.argv[2]) {
    const file = path.resolve(process.argv[2]);
    print('umami, `src/tracker/index.js`', '', await measure(`import ${JSON.stringify(file)};`, home));
  }
  for (const [name, version, code, note] of OTHERS) {
    print(note ? `${name} (${note})` : name, version, await measure(code, home, ['react', 'react-dom']));
  }
} finally {
  for (const directory of [home, project]) rmSync(directory, { recursive: true, force: true });
}
