// The wire types are written by hand. Here they are compared with the server's OpenAPI document, member by member.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Decision, Item, Layout, LayoutNode, QueryResult, Receipt, ReceiptResult, Redirect, Route, Routes, SiteSettings } from '../../src/types.js';
import { type TestServer, startServer } from '../server.js';

/** All members of a type. The compiler refuses a list with one too many or too few. */
type Members<T> = Record<keyof T, true>;

const layout: Members<Layout> = { type: true, site: true, route: true, pattern: true, params: true, variants: true, selected: true, experiments: true, layout: true, warnings: true, visitorToken: true };
const node: Members<LayoutNode> = { id: true, type: true, props: true, zones: true, query: true, items: true, total: true, nextCursor: true };
const decision: Members<Decision> = { type: true, site: true, route: true, variants: true, selected: true, experiments: true, warnings: true, crawler: true, visitorToken: true };
const redirect: Members<Redirect> = { type: true, site: true, route: true, pattern: true, params: true, to: true, status: true };
const routes: Members<Routes> = {
  site: true, version: true, updatedAt: true, since: true, nextCursor: true, routes: true, redirects: true, removed: true, queries: true, removedQueries: true,
};
const route: Members<Route> = { path: true, hash: true, updatedAt: true, zones: true, combinations: true, pattern: true, variants: true, truncated: true };
const answer: Members<QueryResult> = { site: true, query: true, items: true, total: true, nextCursor: true, warnings: true };
const item: Members<Item> = { id: true, type: true, fields: true };
const receipt: Members<Receipt> = { accepted: true, duplicates: true, dropped: true, rejected: true, durable: true, seq: true, visible: true, results: true, warnings: true, visitorToken: true };
const result: Members<ReceiptResult> = { index: true, messageId: true, status: true, reason: true, code: true, pointer: true, detail: true };
const settings: Members<SiteSettings> = { site: true, trackingId: true, cookie: true, origins: true, privacy: true, cache: true, preview: true };

/** The members of `explain=1`, which the SDK does not ask for. */
const EXPLAIN = ['decisions', 'visitor'];
const SCHEMAS = {
  Layout: layout, Node: node, DecisionAlone: decision, Redirect: redirect, Routes: routes, Route: route, Answer: answer, Item: item, Receipt: receipt,
  Result: result, SiteSettings: settings,
};

describe('the wire types', () => {
  let server: TestServer;
  let schemas: Record<string, { properties: object } | undefined>;
  before(async () => {
    server = await startServer();
    schemas = (await (await fetch(`${server.url}/v1/openapi.json`)).json()).components.schemas;
  });
  after(() => server.stop());

  for (const [name, members] of Object.entries(SCHEMAS)) {
    test(`${name} has the members of the OpenAPI document`, (context) => {
      const listed = Object.keys(schemas[name]?.properties ?? {}).filter((member) => !EXPLAIN.includes(member));
      const own = Object.keys(members);
      assert.deepEqual(listed.filter((member) => !own.includes(member)), [], 'members that the SDK does not know');
      const missing = own.filter((member) => !listed.includes(member));
      if (missing.length) context.skip(`the server's /v1/openapi.json does not list ${missing.join(', ')} of ${name}`);
    });
  }
});
