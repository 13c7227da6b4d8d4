// Servers of the demo site under two IDs, and relays between the browser and a server.
'use strict';
const { execFileSync, spawn } = require('node:child_process');
const { cpSync, mkdirSync, readFileSync, readdirSync, writeFileSync } = require('node:fs');
const net = require('node:net');
const path = require('node:path');

// Bound of the start of a server and of a poll, in milliseconds. Each takes under a second on a laptop.
const STEP_MS = 10_000;
// Bound of an export. Those of the tests are a tenth of it.
const EXPORT_BYTES_MAX = 256 * 1024 * 1024;

// Compiles the demo site as `site` with these origins into `snapshots`.
function compileSite(places, site, origins) {
  const snapshots = path.join(places.directory, 'snapshots');
  mkdirSync(snapshots, { recursive: true });
  compileDemo(places, { site, trackingId: `track_${site}`, origins }, path.join(snapshots, `${site}.snapshot`));
  return snapshots;
}

// Compiles the demo site with other settings to a file. `experiments` has changes of experiments, by key.
function compileDemo({ parallax, demo, directory }, changes, output, experiments = {}) {
  const source = path.join(directory, `source of ${path.basename(output)}`);
  cpSync(demo, source, { recursive: true });
  const file = path.join(source, 'site.json');
  writeFileSync(file, JSON.stringify({ ...JSON.parse(readFileSync(file)), ...changes }));
  const routes = path.join(source, 'routes');
  for (const name of readdirSync(routes, { recursive: true }).filter((name) => name.endsWith('.json'))) {
    const route = path.join(routes, name);
    const changed = (member, value) => (member === 'experiment' ? { ...value, ...experiments[value.key] } : value);
    writeFileSync(route, JSON.stringify(JSON.parse(readFileSync(route), changed)));
  }
  execFileSync(parallax, ['compile', source, '-o', output], { stdio: 'ignore' });
}

// A running server with a data directory of its own.
class Server {
  static async start({ parallax, directory }, snapshots, name, flags = []) {
    const data = path.join(directory, `data-${name}`);
    return Server.run(parallax, data, ['--snapshots', snapshots, '--data', data, ...flags], directory);
  }

  // Starts a server in an empty directory of its own. It serves the demo site, as for a newcomer.
  static async startDemo({ parallax, directory }, name, flags = []) {
    const home = path.join(directory, name);
    mkdirSync(home, { recursive: true });
    const server = await Server.run(parallax, path.join(home, 'data'), flags, home);
    return Object.assign(server, { snapshots: path.join(home, 'snapshots') });
  }

  static async run(parallax, data, flags, cwd) {
    const addresses = ['--listen', '--admin'].flatMap((flag) => (flags.includes(flag) ? [] : [flag, '127.0.0.1:0']));
    const command = [parallax, 'serve', ...addresses, ...flags];
    // The server inherits the ignored signal. Otherwise `failWrites` would end it.
    const shell = ['-c', 'trap "" XFSZ; exec "$@"', 'sh', ...command];
    const server = new Server(parallax, data, spawn('sh', shell, { stdio: ['ignore', 'pipe', 'pipe'], cwd }));
    const kill = () => server.process.kill('SIGKILL');
    // Before the directory is removed.
    process.prependListener('exit', kill);
    server.process.once('exit', () => process.removeListener('exit', kill));
    server.url = await server.listeningUrl();
    return server;
  }

  constructor(parallax, data, child) {
    Object.assign(this, { parallax, data, process: child, log: '' });
  }

  listeningUrl() {
    return new Promise((resolve, reject) => {
      const fail = (reason) => reject(new Error(`the server ${reason}:\n${this.log}`));
      const timer = setTimeout(fail, STEP_MS, 'did not serve in time');
      const read = (bytes) => {
        this.log += bytes;
        const found = / serving url=(http:\/\/\S+)/.exec(this.log);
        if (found) {
          clearTimeout(timer);
          resolve(found[1]);
        }
      };
      this.process.stdout.on('data', read);
      this.process.stderr.on('data', read);
      this.process.on('exit', () => fail('exited before it served'));
    });
  }

  // The address of the console and of the questions.
  get adminUrl() {
    return / admin address url=(http:\/\/\S+)/.exec(this.log)[1];
  }

  // Ends the server, so that another one can have its address.
  stop() {
    return new Promise((ended) => {
      this.process.once('exit', ended);
      this.process.kill('SIGTERM');
    });
  }

  // Returns the recorded events, by `parallax export` beside the running server.
  records() {
    const text = execFileSync(this.parallax, ['export', this.data, '--format', 'ndjson'], { encoding: 'utf8', maxBuffer: EXPORT_BYTES_MAX });
    return text.split('\n').filter(Boolean).map((line) => JSON.parse(line));
  }

  // Polls until `found` returns a value for the recorded events. Returns undefined if it does not in time.
  async recorded(found, timeoutMs = STEP_MS) {
    for (const end = Date.now() + timeoutMs; ; await new Promise((next) => setTimeout(next, 200))) {
      const value = found(this.records());
      if (value || Date.now() > end) return value;
    }
  }

  // Lets each later write to a file fail, as on a full disk.
  failWrites() {
    execFileSync('prlimit', ['--pid', String(this.process.pid), '--fsize=0']);
  }
}

// Starts a TCP relay to a server and returns its URL. Of the first request of a connection it changes the head and
// holds back all but `bodyBytes` of the body, as a proxy or a stalled network would.
function startRelay(serverUrl, { changeHead = (head) => head, bodyBytes = Infinity }) {
  const target = new URL(serverUrl);
  const relay = net.createServer((client) => {
    const server = net.connect(Number(target.port), target.hostname);
    const ignore = () => {};
    client.on('error', ignore).on('close', () => server.destroy());
    server.on('error', ignore).pipe(client);
    let head = '';
    let room = bodyBytes;
    client.on('data', (bytes) => {
      let body = bytes;
      if (head !== null) {
        head += bytes.toString('latin1');
        const end = head.indexOf('\r\n\r\n') + 4;
        if (end < 4) return;
        server.write(changeHead(head.slice(0, end)), 'latin1');
        body = Buffer.from(head.slice(end), 'latin1');
        head = null;
      }
      if (room > 0 && body.length > 0) server.write(body.subarray(0, room));
      room -= body.length;
    });
  });
  return new Promise((resolve) => {
    relay.listen(0, '127.0.0.1', () => resolve(`http://127.0.0.1:${relay.address().port}`));
  });
}

module.exports = { STEP_MS, Server, compileDemo, compileSite, startRelay };
