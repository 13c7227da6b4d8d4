// The console of the admin address: its pages in both colour schemes and on a phone, its tasks by keyboard, hostile texts, tokens, and
// its limits. The server has invented visitors of two months.
'use strict';
const { execFileSync } = require('node:child_process');
const { ConsoleBench } = require('./console/bench.cjs');
const { Server } = require('./server.cjs');

// Visitors of the quick form. They are enough for an interval in the result of the experiment.
const VISITORS = process.env.PARALLAX_LONG ? '5000' : '2000';

const PARTS = ['pages', 'numbers', 'goals', 'compare', 'journeys', 'words', 'tasks', 'people', 'hostile', 'tokens', 'roles', 'links', 'privacy', 'faults', 'busy', 'results', 'experiments', 'segments', 'lists', 'changes', 'publications', 'limits'];

module.exports = async function console_(bench) {
  const server = await Server.startDemo(bench.places, 'console', ['--admin-token', 'open-sesame']);
  const traffic = ['demo-traffic', '--to', server.url, '--visitors', VISITORS];
  execFileSync(bench.places.parallax, traffic, { stdio: 'ignore' });
  const at = new ConsoleBench(bench, server, 'open-sesame');
  for (const part of PARTS) {
    const began = performance.now();
    await require(`./console/${part}.cjs`)(at);
    console.log(`console ${part}: ${((performance.now() - began) / 1000).toFixed(1)} s`);
  }
};
