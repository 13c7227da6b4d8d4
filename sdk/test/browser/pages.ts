// The pages of a test, for any host name.
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { build } from 'esbuild';

const { packedModules } = await import(pathToFileURL(path.join(process.env.PARALLAX_SDK!, 'test/packed.mjs')).href);

/** Bundles `app.tsx` with the installed package. */
export async function bundleApp(): Promise<string> {
  const { outputFiles } = await build({
    // Resolved in the project, so that the page has one React.
    stdin: { contents: readFileSync(path.join(process.env.PARALLAX_SDK!, 'test/browser/app.tsx'), 'utf8'), loader: 'tsx', resolveDir: process.env.PARALLAX_PACKED! },
    bundle: true,
    plugins: [packedModules(process.env.PARALLAX_PACKED!, false)],
    write: false,
    format: 'iife',
    target: 'es2022',
    jsx: 'automatic',
    define: { 'process.env.NODE_ENV': '"development"' },
  });
  return outputFiles[0]!.text;
}

/** The script that the server embeds. */
export const TAG = readFileSync(path.join(process.env.PARALLAX_SDK!, 'parallax.js'));

export interface Pages {
  port: number;
  /** The requests for documents and scripts, in order. */
  requests: string[];
  stop(): void;
}

/** Serves pages, and the script at `/parallax.js`. A page is null for a path that never answers. */
export async function servePages(pageOf: (url: URL) => string | null): Promise<Pages> {
  const requests: string[] = [];
  const server = createServer((request, response) => {
    const url = new URL(request.url!, `http://${request.headers.host}`);
    requests.push(url.pathname);
    const isScript = url.pathname.endsWith('.js');
    const page = url.pathname === '/parallax.js' ? TAG : pageOf(url);
    if (page === null) return;
    if (isScript) return response.writeHead(200, { 'content-type': 'text/javascript' }).end(page);
    response.writeHead(200, { 'content-type': 'text/html; charset=utf-8' }).end(`<!doctype html><link rel="icon" href="data:,">${page}`);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const stop = () => {
    server.close();
    server.closeAllConnections();
  };
  return { port: (server.address() as AddressInfo).port, requests, stop };
}
