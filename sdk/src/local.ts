import { cutSlashes } from './addresses.js';
import { type Client, createClient, decisionQuery } from './client.js';
import type { LocalDecisions } from './decide.js';
import type { ParallaxError } from './errors.js';
import { RULES_SECONDS } from './limits.js';
import { createDecider } from './local/decider.js';
import { type ModuleSource, compile } from './local/module.js';
import { createRules } from './local/rules.js';
import type { AnySite, ApiResponse, ClientOptions, Decision, Forced, Layout, Redirect, RequestOptions, SiteTypes, Visitor } from './types.js';

export { ParallaxError } from './errors.js';
export { visitorCookie } from './past.js';
export type { ModuleSource } from './local/module.js';

export interface LocalClientOptions extends ClientOptions {
  /** The output of `parallax visitor-keys`. A secret of your server. Without it only new visitors are decided in process. */
  visitorKeys?: string;
  /** The module that decides, or its bytes. Default: that of the package. A worker of a CDN imports `@parallax/sdk/edge.wasm`. */
  module?: ModuleSource;
  /** The age at which the rules are requested again. Default 5. */
  refreshSeconds?: number;
  /** Called for a failure of the refresh, once until the next success or another failure. Default: writes to the console. */
  onError?(error: ParallaxError): void;
}

/** A client that decides in process, with the rules of the site in memory. Its other calls go to Edge. */
export interface LocalClient<S extends SiteTypes = AnySite> extends Client<S>, LocalDecisions {
  /** The client without the rules. */
  readonly edge: Client<S>;
  /** The version of the rules, or null while Edge is asked for each decision. */
  readonly rulesVersion: string | null;
  /** Requests the rules now, for a start with rules and for a publication. Never throws: a failure leaves the rules as they are. */
  refresh(): Promise<void>;
  /** Ends the refresh and forgets the rules. Edge is asked for each decision from then on. */
  close(): void;
}

export function createLocalClient<S extends SiteTypes = AnySite>(options: LocalClientOptions): LocalClient<S> {
  const { visitorKeys = '', module, refreshSeconds = RULES_SECONDS, onError = logged, ...rest } = options;
  const edge = createClient<S>(rest);
  let reported: string | null = null;
  const report = (error: ParallaxError) => {
    if (error.code !== reported) onError(error);
    reported = error.code;
  };
  const url = `${cutSlashes(options.edgeUrl)}/v1/rules?${new URLSearchParams({ trackingId: options.trackingId })}`;
  const load = async () => createDecider(await compile(module), visitorKeys, report);
  const rules = createRules({ url, seconds: refreshSeconds, fetch: options.fetch, report, succeeded: () => (reported = null) }, load);

  function decideLocally(route: string, visitor: Visitor, request?: RequestOptions, isLast?: boolean): ApiResponse<Decision | Redirect> | null {
    rules.refreshIfDue(request?.waitUntil);
    const token = tokenOf(visitor, request, isLast);
    const decider = token === null ? null : rules.usable(isLast);
    const text = decider?.decide(token!, requestOf(options.trackingId, route, visitor, request));
    return text ? { data: JSON.parse(text), version: decider!.version, tags: [], requestId: null } : null;
  }

  async function decideAtEdge(route: string, visitor: Visitor, request?: RequestOptions): Promise<ApiResponse<Decision | Redirect>> {
    const response = await edge.variants(route, Object.assign({ visitor: 1 }, visitor), request);
    return { ...response, visitorToken: response.data.type === 'redirect' ? undefined : response.data.visitorToken };
  }

  async function variants(route: string, visitor: Visitor, request?: RequestOptions): Promise<ApiResponse<Decision | Redirect>> {
    const decided = decideLocally(route, visitor, request);
    if (decided) return decided;
    return decideAtEdge(route, visitor, request).catch((error) => {
      const last = error.retryable ? decideLocally(route, visitor, request, true) : null;
      if (last) return last;
      throw error;
    });
  }

  /** Decides for a visitor, and takes the layout of that combination from Edge, where any cache may hold it. */
  async function resolve(route: string, selection: Forced | Visitor, request?: RequestOptions): Promise<ApiResponse<Layout<S> | Redirect>> {
    if ('variants' in selection) return edge.resolve(route, selection, request);
    const decided = await variants(route, selection, request);
    const { data, visitorToken } = decided;
    if (data.type === 'redirect') return decided as ApiResponse<Redirect>;
    const response = await edge.resolve(route, { variants: data.variants }, request);
    const { experiments, warnings } = data;
    return { ...response, visitorToken, data: { ...response.data, experiments, ...(warnings && { warnings }) } as Layout<S> };
  }

  return {
    ...edge,
    edge,
    get rulesVersion() {
      return rules.usable()?.version ?? null;
    },
    decideLocally,
    decideAtEdge,
    variants,
    resolve,
    refresh: rules.refresh,
    close: rules.close,
  };
}

/** Returns the token of a visitor, empty for one without a past, or null for one whose past only Edge knows. */
function tokenOf(visitor: Visitor, { past }: RequestOptions = {}, isLast?: boolean): string | null {
  if (visitor.personalize === false) return '';
  if (!visitor.userId && (past ? past.isNew : !visitor.anonId)) return '';
  return past?.isStale && !isLast ? null : (past?.token ?? null);
}

/** Returns the request that the client would send to Edge. A header has the characters of Latin-1. */
function requestOf(trackingId: string, route: string, visitor: Visitor, request?: RequestOptions): string | Uint8Array {
  let text = `GET /v1/variants?${decisionQuery(trackingId, route, visitor)} HTTP/1.1\r\nhost: edge\r\n`;
  const headers = new Headers(request?.init?.headers);
  if (visitor.userHash) headers.set('x-user-hash', visitor.userHash);
  headers.forEach((value, name) => (text += `${name}: ${value}\r\n`));
  text += '\r\n';
  return /[\x80-\xff]/.test(text) ? Uint8Array.from(text, (character) => character.charCodeAt(0)) : text;
}

function logged(error: ParallaxError): void {
  console.error(`Parallax: decisions may not be made in process: ${error.message}`);
}
