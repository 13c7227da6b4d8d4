// A node of a cluster: the views that cover its own log say so, and those of a server that is alone do not.
'use strict';
const { execFileSync } = require('node:child_process');
const { chmodSync, mkdirSync, writeFileSync } = require('node:fs');
const path = require('node:path');
const { Server } = require('../server.cjs');
const { ConsoleBench, SITE, go, settled } = require('./bench.cjs');

const OF_ONE_LOG = ['overview', 'sources', 'funnels', 'retention', 'paths', 'pages', 'experiments'];
const OTHERS = ['audiences', 'publishing', 'health'];
const VISITOR = 'of-one-node';

module.exports = async function node(at) {
  const places = at.bench.places;
  const secret = path.join(places.directory, 'cluster-secret');
  writeFileSync(secret, Buffer.alloc(32, 7));
  chmodSync(secret, 0o600);
  // No NATS server is there, so the node is alone. It has joined before, and acknowledges events.
  const data = path.join(places.directory, 'node', 'data');
  mkdirSync(data, { recursive: true });
  const identity = { format: 1, name: 'a', instance: '0'.repeat(32), hasJoined: true };
  writeFileSync(path.join(data, 'node'), JSON.stringify(identity));
  const flags = ['--admin-token', at.token, '--cluster', 'nats://127.0.0.1:1', '--node', 'a', '--cluster-secret', secret];
  const server = await Server.startDemo(places, 'node', flags);
  execFileSync(places.parallax, ['demo-traffic', '--to', server.url, '--visitors', '5'], { stdio: 'ignore' });
  await words(at, false);
  const ofNode = new ConsoleBench(at.bench, server, at.token);
  await words(ofNode, true);
  await numberOfNodes(ofNode);
  await experiment(ofNode);
  server.process.kill('SIGKILL');
};

// The node has read no heartbeat, so it does not know the number. The others are answers of a node in a cluster.
async function numberOfNodes(at) {
  for (const [nodes, place] of [[null, '1 of ?'], [1, '1 of 1'], [3, '1 of 3']]) {
    const { page, context } = await at.open(`#publishing?site=${SITE}`);
    if (nodes !== null) {
      await page.route('**/readyz', async (route) => {
        const response = await route.fetch();
        await route.fulfill({ response, json: { ...(await response.json()), nodes } });
      });
    }
    await go(page, `#overview?site=${SITE}`);
    // The page may have the answer from before the route, and does not ask again.
    await page.reload();
    await settled(page);
    const sentence = `The events are of this node only, ${place}.`;
    await page.getByText(sentence).waitFor().catch(() => {});
    const found = await page.getByText('This node only').textContent();
    at.check(`the overview of one of ${nodes} nodes`, found, sentence);
    await context.close();
  }
}

async function experiment(at) {
  const { page, context } = await at.open(`#experiments?site=${SITE}&key=slow-front`);
  await settled(page);
  const decision = await page.locator('.decision').textContent();
  at.check('the decision on one node names the alarm', decision, 'Cannot be decided, because the result has an alarm (one_node); do not use it.');
  const alarm = 'This server lacks the events of the other nodes. Use its numbers for no decision.';
  at.check('the alarm on one node is a sentence', await page.getByText(alarm).count(), 1);
  const verdicts = await page.locator('table').first().getByText('none', { exact: true }).count();
  at.check('each metric on one node has no verdict', verdicts > 0, true);
  const others = await page.getByText(/^(better|worse|harmed|no worse|too early|not told apart)$/).count();
  at.check('no metric on one node has a verdict', others, 0);
  await context.close();
}

// Counts the words on each page.
async function words(at, isNode) {
  const name = isNode ? 'a node' : 'a server that is alone';
  await at.send([{ type: 'track', anonId: VISITOR, event: 'Seen' }]);
  const { page, context } = await at.open(`#overview?site=${SITE}`);
  for (const [hash, expected] of [...OF_ONE_LOG.map((one) => [one, 1]), ...OTHERS.map((one) => [one, 0])]) {
    await go(page, `#${hash}?site=${SITE}`);
    await settled(page);
    if (isNode && expected > 0) await page.getByText('This node only').waitFor();
    const found = (await page.locator('main').textContent()).match(/this node only/gi) ?? [];
    at.check(`${name} says "this node only" on ${hash}`, found.length, isNode ? expected : 0);
  }
  await go(page, `#visitors?site=${SITE}&anonId=${VISITOR}`);
  await settled(page);
  await page.getByText('newest first').waitFor();
  if (isNode) await page.getByText('newest first (this node only)').waitFor();
  const button = await page.getByRole('button', { name: 'Export' }).textContent();
  at.check(`the export of ${name}`, button, isNode ? 'Export (this node only)' : 'Export');
  await context.close();
}
