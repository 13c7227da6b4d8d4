import { createHash } from 'node:crypto';
import { type AdminSettings, type AskAdmin, adminClient } from './admin.js';
import { authorOf } from './check.js';
import { explain, pick, readQuestion } from './explain.js';
import { Members, readBody } from './json-body.js';
import { BODY_BYTES_MAX, HISTORY_MAX, SAVE_BODY_BYTES_MAX } from './limits.js';
import { type ReadPreview, checkPreviewSecret, expiryOf, lastingRevision, pageOf, previewReader, readPreviewRequest, signPreview, verifyPreview } from './preview.js';
import { checkLocks } from './locks.js';
import { Problem, isRefusal, problemOf } from './problem.js';
import type { Change, Storage, User } from './storage.js';

/** `visitors`: explanations for real visitors. No role includes another one. */
export type Role = 'view' | 'edit' | 'publish' | 'visitors';

/** A part of the editor that not every composer has. */
export type Feature = 'publish' | 'versions' | 'history' | 'preview';

export interface Session {
  user: User;
  roles: Role[];
}

export interface HandlerOptions {
  storage: Storage;
  /** Returns the person who sends a request and its roles, or null for a request without a valid session. */
  authorize(request: Request): Promise<Session | null>;
  /** False for a zone that a person may not change. Default: everybody with the role `edit` may change all. */
  canEdit?(session: Session, place: { file: string; zone: string }): boolean;
  /** The origin of the page with the editor, if a proxy changes the host of requests. Default: that of the URL of each request. */
  origin?: string;
  /** The server that counts audiences and explains decisions. */
  parallax?: AdminSettings;
  /** Signs the links to previews: a random text of at least 32 characters. Without it the editor offers no link. */
  previewSecret?: string;
  /** The time in milliseconds since 1970, for the links to previews. Default: `Date.now`. */
  now?: () => number;
  /** Receives errors whose clients get a 500 without details. Default: `console.error`. */
  onError?(error: unknown): void;
}

interface Context {
  options: HandlerOptions;
  ask: AskAdmin | undefined;
  request: Request;
  session: Session;
  /** The last segment of the path, for `history/REVISION`. */
  revision: string;
}

interface Route {
  method: 'GET' | 'POST';
  role: Role;
  answer(context: Context): Promise<Response>;
}

const ROLES: readonly Role[] = ['view', 'edit', 'publish', 'visitors'];
const REVISION = /^[0-9a-f]{7,64}$/;

const ROUTES: ReadonlyMap<string, Route> = new Map<string, Route>([
  ['site', { method: 'GET', role: 'view', answer: answerSite }],
  ['save', { method: 'POST', role: 'edit', answer: answerSave }],
  ['publish', { method: 'POST', role: 'publish', answer: answerPublish }],
  ['versions', { method: 'GET', role: 'view', answer: answerVersions }],
  ['rollback', { method: 'POST', role: 'publish', answer: answerRollback }],
  // A link opens a page for people without a session, so a person who may only look cannot make one.
  ['preview', { method: 'POST', role: 'edit', answer: answerPreviewLink }],
  ['history', { method: 'GET', role: 'view', answer: answerHistory }],
  ['history/REVISION', { method: 'GET', role: 'view', answer: answerRevision }],
  ['sizes', { method: 'GET', role: 'view', answer: answerSizes }],
  ['explain', { method: 'POST', role: 'view', answer: answerExplain }],
]);

/**
 * Returns the handler of the requests of the editor, for the last segments of any path: `site`, `save`, `publish`, `versions`, `rollback`,
 * `preview`, `history`, `history/REVISION`, `sizes` and `explain`. Throws if the options cannot be used.
 */
export function composerHandler(options: HandlerOptions): (request: Request) => Promise<Response> {
  if (typeof options.authorize !== 'function') throw new TypeError("'authorize' is missing: without it everybody could change the site.");
  if (!options.storage) throw new TypeError("'storage' is missing.");
  if (options.origin !== undefined && new URL(options.origin).origin !== options.origin) {
    throw new TypeError(`'origin' must be an origin such as https://www.example.com, without a path and a slash at its end.`);
  }
  if (options.previewSecret !== undefined) checkPreviewSecret(options.previewSecret);
  const ask = options.parallax && adminClient(options.parallax);
  const read = previewReader(options.storage, options.now ?? Date.now);
  const report = options.onError ?? ((error: unknown) => console.error('composer:', error));

  return async (request) => {
    try {
      return await handle(options, ask, read, request);
    } catch (error) {
      const problem = isRefusal(error) ? problemOf(error) : error;
      if (problem instanceof Problem && problem.status !== 500) return problem.toResponse();
      report(error);
      return (problem instanceof Problem ? problem : new Problem(500, 'internal', 'The composer failed. Its server has the cause in its log.')).toResponse();
    }
  };
}

async function handle(options: HandlerOptions, ask: AskAdmin | undefined, read: ReadPreview, request: Request): Promise<Response> {
  const { pathname, origin } = new URL(request.url);
  const { route, revision } = findRoute(pathname);
  if (route?.answer === answerPreviewLink && request.method === 'GET') return answerPreview(options, read, request);
  if (!route) throw new Problem(404, 'unknown_endpoint', 'The composer has no such endpoint.');
  if (request.method !== route.method) {
    const allow = route.answer === answerPreviewLink ? 'GET, POST' : route.method;
    throw new Problem(405, 'method_not_allowed', `${request.method.slice(0, 20)} is not supported here; use ${allow}.`, { headers: { allow } });
  }
  checkOrigin(request, options.origin ?? origin);
  const session = await options.authorize(request);
  if (!session) throw new Problem(401, 'unauthorized', 'Sign in to use the composer.');
  const roles = ROLES.filter((role) => session.roles.includes(role));
  checkRole(roles, route.role);
  return route.answer({ options, ask, request, session: { user: session.user, roles }, revision });
}

function findRoute(pathname: string): { route: Route | undefined; revision: string } {
  const segments = pathname.split('/');
  const [parent, last] = [segments.at(-2) ?? '', segments.at(-1) ?? ''];
  const name = parent === 'history' && REVISION.test(last) ? 'history/REVISION' : last;
  return { route: ROUTES.get(name), revision: last };
}

/** Refuses requests that the page of another site starts: a browser sends the cookie of the session with some of them. */
function checkOrigin(request: Request, ownOrigin: string): void {
  const { headers, method } = request;
  if (headers.get('sec-fetch-site') === 'cross-site') throw new Problem(403, 'origin_not_allowed', 'Pages of other sites may not use the composer.');
  if (method !== 'POST') return;
  if (headers.get('origin') !== ownOrigin) {
    throw new Problem(403, 'origin_not_allowed', 'The header Origin must be the origin of the composer. Behind a proxy, set the option origin.');
  }
  const type = headers.get('content-type')?.split(';')[0]!.trim().toLowerCase();
  if (type !== 'application/json') throw new Problem(415, 'unsupported_media_type', 'The body must have the content type application/json.');
}

function checkRole(roles: Role[], role: Role): void {
  if (!roles.includes(role)) throw new Problem(403, 'role_missing', `This needs the role "${role}".`);
}

async function answerSite({ options, request, session }: Context): Promise<Response> {
  const site = await options.storage.list();
  const { user, roles } = session;
  const rights = { user: { name: user.name, email: user.email }, roles, features: featuresOf(options) };
  const etag = `"${createHash('sha256').update(JSON.stringify([site.revision, rights])).digest('hex')}"`;
  const headers = { etag, 'cache-control': 'private, no-cache' };
  const known = (request.headers.get('if-none-match') ?? '').split(',').map((tag) => tag.trim().replace(/^W\//, ''));
  if (known.includes(etag) || known.includes('*')) return new Response(null, { status: 304, headers });
  return json({ ...site, ...rights }, headers);
}

async function answerSave({ options, request, session }: Context): Promise<Response> {
  const members = new Members(await readBody(request, SAVE_BODY_BYTES_MAX), ['base', 'changes', 'message']);
  const changes = members.array('changes').map((value): Change => {
    const change = new Members(value, ['path', 'text', 'etag'], 'A change');
    return { path: change.text('path'), text: change.textOrNull('text'), etag: change.textOrNull('etag') };
  });
  const { canEdit } = options;
  if (canEdit) checkLocks(changes, (await options.storage.list()).files, (place) => canEdit(session, place));
  const saved = await options.storage.save({ base: members.text('base'), changes, message: members.text('message'), author: session.user });
  if (saved.kind === 'saved') return json(saved);
  const { revision, files } = saved;
  throw new Problem(409, 'conflict', 'Other changes were saved in the meantime. Nothing of this save was written.', { members: { revision, files } });
}

async function answerPublish({ options, request }: Context): Promise<Response> {
  const { storage } = options;
  if (!storage.publish) throw notAvailable('publications');
  const revision = new Members(await readBody(request, BODY_BYTES_MAX), ['revision']).text('revision');
  return json(await storage.publish(revision));
}

async function answerVersions({ options }: Context): Promise<Response> {
  const { storage } = options;
  if (!storage.versions) throw notAvailable('published versions');
  return json({ versions: await storage.versions() });
}

async function answerRollback({ options, request }: Context): Promise<Response> {
  const { storage } = options;
  if (!storage.rollback) throw notAvailable('published versions');
  const members = new Members(await readBody(request, BODY_BYTES_MAX), ['version', 'newest']);
  return json(await storage.rollback(members.text('version'), members.text('newest')));
}

/** Answers with a link, relative to the page with the editor. The token is in its fragment, which no server sees. */
async function answerPreviewLink({ options, request, session }: Context): Promise<Response> {
  const { storage, previewSecret, now = Date.now } = options;
  if (previewSecret === undefined) throw notAvailable('previews');
  const { revision, page, days } = readPreviewRequest(await readBody(request, BODY_BYTES_MAX));
  const lasting = await lastingRevision(storage, revision);
  pageOf(lasting.files, page);
  const expiry = expiryOf(now(), days);
  const token = signPreview(previewSecret, { revision: lasting.revision, page, by: authorOf(session.user).name }, expiry);
  return json({ url: `#preview=${token}`, expires: new Date(expiry * 1000).toISOString() });
}

/** Answers a person who has a link, with or without a session. The token is in a header, because proxies log URLs. */
async function answerPreview({ previewSecret, now = Date.now }: HandlerOptions, read: ReadPreview, request: Request): Promise<Response> {
  if (request.headers.get('sec-fetch-site') === 'cross-site') throw new Problem(403, 'origin_not_allowed', 'Pages of other sites may not use the composer.');
  if (previewSecret === undefined) throw notAvailable('previews');
  if (new URL(request.url).search !== '') throw new Problem(400, 'token_in_url', 'The token of a preview belongs into the header x-preview. Its link is in logs now; ask for a new one.');
  const { expiry, ...preview } = verifyPreview(previewSecret, request.headers.get('x-preview'), now());
  return json({ page: preview.page, ...(await read(preview)), by: preview.by, expires: new Date(expiry * 1000).toISOString() });
}

/** Returns the parts of the editor that the storage and the options allow. */
function featuresOf({ storage, previewSecret }: HandlerOptions): Feature[] {
  const has: Record<Feature, boolean> = {
    publish: storage.publish !== undefined,
    versions: storage.versions !== undefined,
    history: storage.history !== undefined,
    preview: previewSecret !== undefined,
  };
  return (Object.keys(has) as Feature[]).filter((feature) => has[feature]);
}

async function answerHistory({ options }: Context): Promise<Response> {
  const { storage } = options;
  if (!storage.history) throw notAvailable('history');
  return json({ revisions: await storage.history(HISTORY_MAX) });
}

async function answerRevision({ options, revision }: Context): Promise<Response> {
  const { storage } = options;
  if (!storage.at) throw notAvailable('history');
  return json({ revision, files: await storage.at(revision) });
}

async function answerSizes({ options, ask }: Context): Promise<Response> {
  if (!ask) throw notAvailable('Parallax server');
  const answer = await ask('/insights/audiences', new URLSearchParams({ site: await siteId(options.storage) }));
  const { audiences } = Object(answer) as { audiences?: unknown };
  const rows = Array.isArray(audiences) ? audiences.map((audience) => pick(audience, ['name', 'condition', 'atLeast', 'atMost'])) : [];
  return json({ ...pick(answer, ['at', 'profiles']), audiences: rows });
}

async function answerExplain({ options, ask, request, session }: Context): Promise<Response> {
  if (!ask) throw notAvailable('Parallax server');
  const question = readQuestion(await readBody(request, BODY_BYTES_MAX));
  if (question.kind === 'real') checkRole(session.roles, 'visitors');
  return json(await explain(ask, await siteId(options.storage), question));
}

/** Returns the site ID of the stored `site.json`. No request can ask about another site. */
async function siteId(storage: Storage): Promise<string> {
  const { files } = await storage.list();
  try {
    const { site } = JSON.parse(files['site.json']?.text ?? '') as { site?: unknown };
    if (typeof site === 'string' && site !== '') return site;
  } catch {
    // The problem below says it.
  }
  throw new Problem(409, 'invalid_site', 'site.json has no site ID. Correct it first.');
}

function notAvailable(what: string): Problem {
  return new Problem(404, 'not_available', `This composer has no ${what}.`);
}

function json(value: unknown, headers: Record<string, string> = { 'cache-control': 'no-store' }): Response {
  return new Response(JSON.stringify(value), { headers: { 'content-type': 'application/json', 'x-content-type-options': 'nosniff', 'referrer-policy': 'no-referrer', ...headers } });
}
