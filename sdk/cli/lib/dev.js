// `parallax dev`: serves a site directory, and compiles it again after each change.
import { watch } from 'node:fs';
import { createServer } from 'node:http';
import { describeError } from './disk.js';
import { Module } from './module.js';
import { runToEnd } from './runs.js';

// Longest time between two readings of the directory, in milliseconds. It finds changes that the system does not report.
const READ_INTERVAL_MS = 1_000;
// Pause after a reading, as a multiple of its time, so that a large site needs a tenth of a core.
const REST_FACTOR = 9;
// Pause after a change until the reading, so that an editor that saves in several steps causes one reading, and the longest such pause.
const SETTLE_DELAY_MS = 50;
const SETTLE_MAX_MS = 500;
// Largest body of a request, in bytes: above that of the server, which refuses a larger one itself.
const BODY_BYTES_MAX = 16 * 1024 * 1024;

/** The versions of a site, and the answers of the last one without errors. */
class Site {
  #directory;
  #module;
  #snapshot = null;
  #address = null;

  constructor(directory) {
    this.#directory = directory;
    this.#start();
  }

  #start() {
    this.#module = new Module();
    this.#step('begin', this.#directory);
  }

  /** Calls a function. After a panic the next call has a new instance. */
  #guard(function_) {
    try {
      return function_();
    } catch (error) {
      console.error(`parallax: internal error: ${error.message}`);
      this.#start();
      // The events of before are lost with the instance.
      if (this.#snapshot) this.#module.call('serve', [this.#snapshot, 'dev', '']);
      return null;
    }
  }

  #step(name, operand = '') {
    const applyChange = ({ content }) => {
      // A new version keeps the visitors.
      if (this.#snapshot === null) this.#module.call('serve', [content, 'dev', '']);
      else this.#module.call('publish', [content]);
      this.#snapshot = content;
    };
    return runToEnd(this.#module, 'dev', [name, operand], { applyChange });
  }

  /** Compiles the directory if it has changed, and prints the result. */
  compile() {
    this.#guard(() => {
      this.#step('compile');
      this.#step('report');
    });
  }

  /** Prints the URLs of the first version. */
  listen(address) {
    this.#address = address;
    this.#step('listening', address);
  }

  /** Prints the error of an address. Returns the exit code. */
  refuse(address, error) {
    return this.#step('refused', `${address} ${describeError(error)}`).code;
  }

  /** Returns the response to a request. */
  answer(request) {
    return this.#guard(() => {
      if (this.#snapshot === null) return null;
      return this.#module.call('answer', [request]);
    });
  }
}

/** Returns the bytes of a request with a body that has a length. */
function requestBytes({ method, url, rawHeaders }, body) {
  const lines = [`${method} ${url} HTTP/1.1`];
  for (let at = 0; at < rawHeaders.length; at += 2) {
    if (!/^(connection|content-length|expect|transfer-encoding|upgrade)$/i.test(rawHeaders[at])) lines.push(`${rawHeaders[at]}: ${rawHeaders[at + 1]}`);
  }
  if (body.length > 0 || method === 'POST') lines.push(`Content-Length: ${body.length}`);
  return Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1'), body]);
}

/** Sends the bytes of a response. */
function send(response, bytes) {
  const end = bytes.indexOf('\r\n\r\n');
  const [status, ...lines] = bytes.toString('latin1', 0, end).split('\r\n');
  const [, code, reason] = /^HTTP\/1\.1 (\d{3}) ?(.*)$/.exec(status);
  const fields = lines.map((line) => /^([^:]*): ?(.*)$/.exec(line).slice(1)).filter(([name]) => !/^connection$/i.test(name));
  response.sendDate = false;
  response.writeHead(Number(code), reason, fields.flat());
  response.end(bytes.subarray(end + 4));
}

function respond(site, request, response) {
  const parts = [];
  let length = 0;
  request.on('data', (part) => {
    length += part.length;
    if (length > BODY_BYTES_MAX) request.destroy();
    else parts.push(part);
  });
  request.on('end', () => {
    const bytes = site.answer(requestBytes(request, Buffer.concat(parts)));
    if (bytes !== null) return send(response, bytes);
    response.writeHead(503, { 'Content-Type': 'text/plain' });
    return response.end('The site has no version without errors yet.\n');
  });
}

/** Calls `read` after each change of the directory, and at least every second. Returns a function that ends it. */
function watchSite(directory, read) {
  let timer = null;
  let changedAt = null;
  let watcher = null;
  // A directory that was replaced is watched again after the next reading.
  const rewatch = () => {
    try {
      watcher?.close();
      watcher = watch(directory, { recursive: true, persistent: false }, changed);
      watcher.on('error', () => {});
    } catch {
      watcher = null; // The interval finds the changes.
    }
  };
  const look = () => {
    changedAt = null;
    const begun = performance.now();
    read();
    timer = setTimeout(look, Math.max(READ_INTERVAL_MS, REST_FACTOR * (performance.now() - begun)));
  };
  function changed() {
    const now = performance.now();
    changedAt ??= now;
    clearTimeout(timer);
    timer = setTimeout(look, Math.max(0, Math.min(SETTLE_DELAY_MS, changedAt + SETTLE_MAX_MS - now)));
  }
  rewatch();
  const rewatching = setInterval(rewatch, 10 * READ_INTERVAL_MS);
  timer = setTimeout(look, READ_INTERVAL_MS);
  return () => {
    clearTimeout(timer);
    clearInterval(rewatching);
    watcher?.close();
  };
}

/** Splits an address: host and port. The host of IPv6 has brackets. */
function splitAddress(address) {
  const at = address.lastIndexOf(':');
  return { host: address.slice(0, at).replace(/^\[|\]$/g, ''), port: Number(address.slice(at + 1)) };
}

/** Serves a site directory until a signal. Returns the exit code. */
export async function serveSite({ address, directory }) {
  const site = new Site(directory);
  site.compile();
  const server = createServer((request, response) => respond(site, request, response));
  const { host, port } = splitAddress(address);
  const refused = await new Promise((resolve) => {
    server.once('error', resolve);
    server.listen({ host, port }, () => resolve(null));
  });
  if (refused !== null) return site.refuse(address, refused);
  site.listen(`${address.slice(0, address.lastIndexOf(':'))}:${server.address().port}`);
  const stopWatching = watchSite(directory, () => site.compile());
  await new Promise((resolve) => {
    for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, resolve);
  });
  stopWatching();
  server.close();
  server.closeAllConnections();
  return 0;
}
