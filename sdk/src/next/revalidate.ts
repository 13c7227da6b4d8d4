import { revalidateTag } from 'next/cache.js';
import { after } from 'next/server.js';
import type { Client } from '../client.js';
import { cutSlashes } from '../addresses.js';
import { ParallaxError } from '../errors.js';
import { REVALIDATE_TURNS_MAX } from '../limits.js';
import type { Routes } from '../types.js';
import { type Marks, mark, marksOf, removePage, storeMarks, storedMarks } from './marks.js';
import { announcePublication } from './publications.js';
import { basePathOf } from './request.js';
import { isBearer } from './secret.js';
import { changesOf, currentRoutes, storedRoutes } from './stored-routes.js';
import { pathTag, queryTag, routesTag } from './tags.js';
import { renderMarked } from './warm.js';

export interface RevalidateOptions {
  /** The secret of `withParallax` and of `--on-publish-token`. Without it anyone can start a comparison. */
  secret?: string;
  /** The address of this instance, for example `http://localhost:3000`. With `secret`, the handler renders the changed pages ahead. */
  instanceUrl?: string;
  /** The greatest number of pages to render ahead. Default 200. */
  warm?: number;
  /** That of `withParallax`. Default `/px`. */
  prefix?: string;
}

/** Returns a route handler that marks the pages that a publication changed. Others are not rendered again. */
export function revalidateHandler(client: Client<any>, options: RevalidateOptions = {}): (request: Request) => Promise<Response> {
  const { secret } = options;
  const marks = marksOf(client);
  // Next.js takes an entry that is stored in the request that expired its tag for expired. So the stored list is for restarts only.
  let compared: Routes | null = null;
  return async (request) => {
    if (secret && !(await isBearer(request, secret))) return new Response(null, { status: 401 });
    try {
      const announced = await announcedVersion(request);
      const before = compared ?? (await storedRoutes(client));
      const restored = compared ? [] : await storedMarks(client);
      for (const tag of restored) mark(marks, tag, before.version);
      const { list, paths } = await revalidate(client, marks, before);
      compared = list;
      await announcePublication(client);
      for (const { path } of list.routes) if (restored.includes(pathTag(client, path))) paths.add(path);
      if (paths.size) after(() => renderMarked(client, warmerOf(request, options), paths, () => compared!.version));
      return respond(announced, { from: before.version, to: list.version, revalidated: [...paths], unrendered: marks.size });
    } catch (error) {
      if (!(error instanceof ParallaxError)) throw error;
      return Response.json({ code: error.code, detail: error.message }, { status: 503 });
    }
  };
}

interface Comparison {
  from: string;
  to: string;
  /** The paths and patterns that this call marked. */
  revalidated: string[];
  /** The number of tags whose pages are not known to be rendered again. */
  unrendered: number;
}

/** Returns the version of the message of the proxy or of `--on-publish`, or null for a call without one. */
async function announcedVersion(request: Request): Promise<string | null> {
  const message = await request.json().catch(() => null);
  return typeof message?.version === 'string' ? message.version : null;
}

/** The call may reach another server of Edge than the one that announced the version. With 503 it is repeated. */
function respond(announced: string | null, result: Comparison): Response {
  if (announced === null || announced === result.to) return Response.json(result);
  const detail = `Edge serves version ${result.to} here, and not yet ${announced}; call again.`;
  return Response.json({ ...result, code: 'other_version', detail }, { status: 503 });
}

/**
 * Marks the tags of all changes since a list, and stores the marks and the present list. Repeats the comparison with the list that
 * was stored: a version that is published between two reads is not lost. Returns the last list that was compared.
 */
async function revalidate(client: Client<any>, marks: Marks, list: Routes): Promise<{ list: Routes; paths: Set<string> }> {
  const paths = new Set<string>();
  let now = await currentRoutes(client);
  for (let turn = 0; turn < REVALIDATE_TURNS_MAX && list.version !== now.version; turn++) {
    const changes = changesOf(list, now);
    const published = new Set(now.routes.map(({ path }) => path));
    for (const path of changes.paths) {
      paths.add(path);
      if (published.has(path)) mark(marks, pathTag(client, path), now.version);
      else removePage(marks, pathTag(client, path));
    }
    for (const id of changes.queries) mark(marks, queryTag(client, id), now.version);
    await storeMarks(client); // before the list: after a restart, no page of an unchanged path would be marked
    revalidateTag(routesTag(client), { expire: 0 });
    [list, now] = [now, await storedRoutes(client)];
  }
  return { list, paths };
}

function warmerOf(request: Request, { secret, instanceUrl, prefix = '/px', warm }: RevalidateOptions) {
  if (!secret || !instanceUrl) return null;
  return { address: cutSlashes(instanceUrl) + basePathOf(request) + prefix, secret, pagesMax: warm };
}
