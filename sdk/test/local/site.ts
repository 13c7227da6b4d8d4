// A server that publishes the rules of the demo site and makes visitor tokens.
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { type Gateway, startGateway } from '../example/gateway.js';
import { DEMO, type TestServer, runParallax, startServer } from '../server.js';

/** The ID of the demo site. */
const SITE = 'fjell';

export interface LocalSite {
  edge: TestServer;
  /** Between the clients and the server. */
  gateway: Gateway;
  /** The output of `parallax visitor-keys`. */
  visitorKeys: string;
  /** Publishes the site with a later version, with or without the rules. */
  publish(isLocal?: boolean): Promise<void>;
  stop(): Promise<void>;
}

/** Copies the source of the demo site, with its rules public or private. */
export function copyDemo(directory: string, isLocal: boolean): void {
  cpSync(DEMO, directory, { recursive: true });
  const file = path.join(directory, 'site.json');
  writeFileSync(file, JSON.stringify({ ...JSON.parse(readFileSync(file, 'utf8')), localDecisions: isLocal || undefined }));
}

/** Writes a file of visitor keys. Returns its path, and the keys of the site. */
export function makeKeys(home: string, id = 'k1'): { file: string; visitorKeys: string } {
  const file = path.join(home, `visitor-keys-${id}`);
  writeFileSync(file, `${id} ${'0123456789abcdef'.repeat(4)}\n`, { mode: 0o600 });
  return { file, visitorKeys: runParallax('visitor-keys', file, SITE).trim() };
}

export async function startLocalSite(): Promise<LocalSite> {
  const home = mkdtempSync(path.join(tmpdir(), 'parallax-local-'));
  const { file, visitorKeys } = makeKeys(home);
  const first = path.join(home, 'site');
  copyDemo(first, true);
  const edge = await startServer(['--visitor-keys', file], first);
  const gateway = await startGateway(edge.url);
  let version = Date.now();
  const publish = async (isLocal = true) => {
    const source = path.join(home, `site-${++version}`);
    copyDemo(source, isLocal);
    edge.publish(source, 'demo', ['--version', String(version)]);
    const served = async () => (await fetch(`${edge.url}/v1/site?trackingId=track_demo`)).headers.get('x-version');
    while ((await served()) !== String(version)) await new Promise((resolve) => setTimeout(resolve, 20));
  };
  return {
    edge,
    gateway,
    visitorKeys,
    publish,
    async stop() {
      gateway.stop();
      await edge.stop();
      rmSync(home, { recursive: true, force: true });
    },
  };
}
