// Decisions for visitors, with the reasons.
import type { AskAdmin } from './admin.js';
import { isWellFormed } from './check.js';
import { Members } from './json-body.js';
import { EXPLAIN_TEXT_CHARS_MAX, EXPLAIN_URL_CHARS_MAX } from './limits.js';
import { Problem } from './problem.js';

/** The texts of a question about an invented visitor, and its objects. They are the members of the body of `POST /explain`. */
const INVENTED = ['path', 'url', 'referrer', 'now'];
const OBJECTS = ['override', 'visitor'];
/** The texts of a question about a real visitor. They are parameters of `/v1/variants`. */
const REAL = ['path', 'url', 'referrer', 'now', 'userAgent', 'locale', 'country'];
/** The members that name a real visitor. */
const IDS = ['anonId', 'userId'];
/** The members of an answer that are sent on. The profile and the token of the visitor are not. */
const DECISION = ['type', 'site', 'route', 'variants', 'selected', 'experiments', 'decisions', 'warnings', 'crawler'];
const REDIRECT = ['type', 'site', 'route', 'pattern', 'params', 'to', 'status'];

/** A question about an invented visitor, or about a real one with its ID as in a query. */
export type Question = { kind: 'invented'; body: object } | { kind: 'real'; query: URLSearchParams; visitor: string };

/** Reads the body of a question about a visitor. */
export function readQuestion(body: unknown): Question {
  const isReal = IDS.some((name) => Object.hasOwn(Object(body), name));
  const members = new Members(body, isReal ? [...REAL, ...IDS] : [...INVENTED, ...OBJECTS]);
  members.text('path');
  const texts = (isReal ? [...REAL, ...IDS] : INVENTED).flatMap((name): [string, string][] => {
    const text = members.optionalText(name);
    return text === undefined ? [] : [[name, text]];
  });
  for (const [name, text] of texts) {
    if (text.length > EXPLAIN_TEXT_CHARS_MAX || !isWellFormed(text)) {
      throw new Problem(400, 'invalid_body', `The member "${name}" has more than ${EXPLAIN_TEXT_CHARS_MAX} characters, or half of a surrogate pair.`);
    }
  }
  if (!isReal) {
    for (const name of OBJECTS) members.optionalObject(name);
    return { kind: 'invented', body: { ...Object.fromEntries(texts), ...pick(body, OBJECTS) } };
  }
  const ids = texts.filter(([name]) => IDS.includes(name));
  if (ids.length > 1) throw new Problem(400, 'invalid_body', 'The body has both "anonId" and "userId".');
  const query = new URLSearchParams(texts.filter(([name]) => !IDS.includes(name)).map(([name, text]) => [name === 'path' ? 'route' : name, text]));
  return { kind: 'real', query, visitor: String(new URLSearchParams(ids)) };
}

/** Asks for a decision. */
export async function explain(ask: AskAdmin, site: string, question: Question): Promise<object> {
  const answer = await (question.kind === 'invented' ? ask('/explain', new URLSearchParams({ site }), { body: question.body }) : explainReal(ask, site, question));
  const { type } = Object(answer) as { type?: unknown };
  return pick(answer, type === 'redirect' ? REDIRECT : DECISION);
}

/** Asks about a real visitor. Its ID is in a header, because proxies log URLs. */
function explainReal(ask: AskAdmin, site: string, { query, visitor }: Question & { kind: 'real' }): Promise<unknown> {
  const full = new URLSearchParams([['site', site], ...query, ['explain', '1']]);
  if (String(full).length > EXPLAIN_URL_CHARS_MAX) {
    throw new Problem(400, 'invalid_body', `The texts of the visitor have more than ${EXPLAIN_URL_CHARS_MAX} characters in a URL.`);
  }
  return ask('/v1/variants', full, { headers: { 'x-visitor': visitor } });
}

/** Returns an object with the own members of these names. */
export function pick(value: unknown, names: readonly string[]): object {
  return Object.fromEntries(Object.entries(Object(value)).filter(([name]) => names.includes(name)));
}
