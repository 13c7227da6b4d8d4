// A connection to a server that sends several requests at once and splits the responses.
'use strict';
const net = require('node:net');

class Connection {
  static async open(url) {
    const { hostname, port } = new URL(url);
    const socket = net.connect(Number(port), hostname);
    await new Promise((resolve, reject) => socket.once('connect', resolve).once('error', reject));
    return new Connection(socket);
  }

  constructor(socket) {
    this.socket = socket;
    this.received = Buffer.alloc(0);
    socket.on('data', (bytes) => {
      this.received = Buffer.concat([this.received, bytes]);
      this.wake?.();
    });
    socket.on('close', () => {
      this.isClosed = true;
      this.wake?.();
    });
  }

  // Sends requests. Returns their responses in order.
  async send(requests) {
    this.socket.write(Buffer.concat(requests));
    const responses = [];
    for (const request of requests) {
      const response = await this.#next(request.toString('latin1', 0, 5) === 'HEAD ').catch((error) => {
        throw new Error(`${error.message}; it answers ${responses.at(-1)} to ${requests[responses.length - 1]}`);
      });
      responses.push(response);
    }
    return responses;
  }

  end() {
    this.socket.destroy();
  }

  async #next(isHead) {
    for (;;) {
      const end = this.received.indexOf('\r\n\r\n');
      const head = end < 0 ? '' : this.received.toString('latin1', 0, end);
      const hasBody = !isHead && !/^HTTP\/1.1 (204|304)/.test(head);
      const length = end + 4 + (hasBody ? Number(/\r\nContent-Length: (\d+)/.exec(head)?.[1] ?? 0) : 0);
      if (end >= 0 && this.received.length >= length) {
        const response = this.received.subarray(0, length);
        this.received = this.received.subarray(length);
        return response;
      }
      if (this.isClosed) throw new Error(`the server closed the connection, ${this.received.length} bytes are left`);
      await new Promise((resolve) => (this.wake = resolve));
    }
  }
}

module.exports = { Connection };
