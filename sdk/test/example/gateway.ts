// An HTTP proxy before the server, with which the tests count requests and let Edge fail. Its address is in the built pages.
import { Agent, type IncomingMessage, type ServerResponse, createServer, request } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';

/** `refuse` closes the connection, as a killed server does. `silent` accepts and never answers. */
export type Mode = 'open' | 'refuse' | 'silent';

export interface Gateway {
  url: string;
  /** The targets of all requests, in order: `GET /v1/resolve?...`. */
  requests: string[];
  /** Changes the mode of the requests that a pattern names. Default: all. */
  set(mode: Mode, targets?: RegExp): void;
  stop(): void;
}

export async function startGateway(upstream: string): Promise<Gateway> {
  const agent = new Agent({ keepAlive: true });
  const sockets = new Set<Socket>();
  const requests: string[] = [];
  let mode: Mode = 'open';
  let affected = /./;

  function forward(incoming: IncomingMessage, outgoing: ServerResponse): void {
    const target = `${incoming.method} ${incoming.url}`;
    requests.push(target);
    if (mode !== 'open' && affected.test(target)) {
      if (mode === 'refuse') incoming.socket.destroy();
      return;
    }
    const { method, headers } = incoming;
    const onward = request(upstream + incoming.url, { method, headers, agent }, (answer) => {
      outgoing.writeHead(answer.statusCode!, answer.headers);
      answer.pipe(outgoing);
    });
    onward.on('error', () => incoming.socket.destroy());
    incoming.pipe(onward);
  }

  const server = createServer(forward);
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    set(next, targets = /./) {
      [mode, affected] = [next, targets];
    },
    stop() {
      server.close();
      for (const socket of sockets) socket.destroy();
      agent.destroy();
    },
  };
}
