// The first steps of a user with only Node: the package from its tarball, a new site, and a page that a rule decides.
import { spawn, spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';

// Longest time from the installation to the decided page.
const SECONDS_MAX = 10;

/** Starts `parallax dev`. Returns the process and the address. */
async function startDev(work, env) {
  const words = ['--no-install', 'parallax', 'dev', 'my-site', '--listen', '127.0.0.1:0'];
  const server = spawn('npx', words, { cwd: work, env, stdio: ['ignore', 'pipe', 'pipe'], detached: true });
  let text = '';
  const url = await new Promise((resolve, reject) => {
    const read = (part) => {
      text += part;
      const found = /http:\/\/[\d.]+:\d+/.exec(text);
      if (found) resolve(found[0]);
    };
    server.stdout.on('data', read);
    server.stderr.on('data', read);
    server.once('exit', () => reject(new Error(`parallax dev ended:\n${text}`)));
  });
  return { server, url };
}

// Visitors. The experiment of the starter gives half of all visitors each variant.
const VISITORS = 20;

/** Returns the different decisions for several visitors. */
async function decisions(url) {
  const found = new Set();
  for (let visitor = 0; visitor < VISITORS; visitor += 1) {
    const response = await fetch(`${url}/v1/variants?site=my-site&route=/&anonId=visitor-${visitor}`);
    found.add(JSON.stringify((await response.json()).selected));
  }
  return [...found];
}

/** Follows the steps, and prints their time. */
export async function firstSteps(tarball, directory) {
  const work = path.join(directory, 'first-steps');
  mkdirSync(work);
  const env = { PATH: process.env.PATH, HOME: work };
  const begun = performance.now();
  const steps = [['npm', ['install', '--silent', '--no-audit', '--no-fund', '--offline', tarball]], ['npx', ['--no-install', 'parallax', 'init', 'my-site']]];
  for (const [file, words] of steps) {
    const { status, stderr } = spawnSync(file, words, { cwd: work, env, encoding: 'utf8' });
    if (status !== 0) throw new Error(`${file} ${words.join(' ')}: ${stderr}`);
  }
  const { server, url } = await startDev(work, env);
  try {
    const variants = await decisions(url);
    const seconds = (performance.now() - begun) / 1000;
    console.log(`from the tarball to a personalized answer: ${seconds.toFixed(1)} s`);
    if (variants.length < 2) throw new Error(`all visitors get ${variants}`);
    if (seconds > SECONDS_MAX) throw new Error(`more than ${SECONDS_MAX} s`);
    await checkEvents(url);
    await checkReload(work, url);
  } finally {
    process.kill(-server.pid, 'SIGTERM');
  }
}

/** Records two visits. The next decision knows them. */
async function checkEvents(url) {
  const hero = async () => {
    const response = await fetch(`${url}/v1/variants?site=my-site&route=/&anonId=reader`);
    return (await response.json()).selected.hero;
  };
  const before = await hero();
  for (const timestamp of [new Date(Date.now() - 86_400_000), new Date()]) {
    const event = { type: 'page', timestamp: timestamp.toISOString(), properties: { path: '/' } };
    const body = JSON.stringify({ batch: [event] });
    const response = await fetch(`${url}/v1/batch?site=my-site&anonId=reader`, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body });
    if (response.status !== 200) throw new Error(`an event: ${response.status} ${await response.text()}`);
  }
  const after = await hero();
  if (before === after) throw new Error(`the decision does not know the events: ${before}`);
}

/** Changes a text of the site, and waits until the server sends it. */
async function checkReload(work, url) {
  const file = path.join(work, 'my-site/routes/index.json');
  writeFileSync(file, readFileSync(file, 'utf8').replace('"Welcome"', '"Changed by a test"'));
  const begun = performance.now();
  for (;;) {
    const page = await (await fetch(`${url}/v1/resolve?site=my-site&route=/&anonId=visitor-1`)).text();
    if (page.includes('Changed by a test')) break;
    if (performance.now() - begun > SECONDS_MAX * 1000) throw new Error(`no new version: ${page}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  console.log(`from a save to the new answer: ${((performance.now() - begun) / 1000).toFixed(1)} s`);
}
