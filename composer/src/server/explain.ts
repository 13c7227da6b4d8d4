// Decisions for visitors, with the reasons.
import type { AskAdmin } from './admin.js';
import { isWellFormed } from './check.js';
import { Members } from './json-body.js';
import { EXPLAIN_TEXT_CHARS_MAX, EXPLAIN_URL_CHARS_MAX } from './limits.js';
import { Problem } from './problem.js';

/** The members that describe an invented visitor. They are parameters of `/v1/variants`. */
const CONTEXT = ['route', 'url', 'referrer', 'userAgent', 'locale', 'country', 'now', 'override'];
/** The members that name a real visitor. */
const IDS = ['anonId', 'userId'];
/** The members of an answer that are sent on. The profile and the token of the visitor are not. */
const DECISION = ['type', 'site', 'route', 'variants', 'selected', 'experiments', 'decisions', 'warnings', 'crawler'];
const REDIRECT = ['type', 'site', 'route', 'pattern', 'params', 'to', 'status'];

export interface Question {
  query: URLSearchParams;
  /** The ID of a real visitor, encoded as in a query. Null for an invented visitor. */
  visitor: string | null;
}

/** Reads the body of a question about a visitor. */
export function readQuestion(body: unknown): Question {
  const members = new Members(body, [...CONTEXT, ...IDS]);
  members.text('route');
  const texts = [...CONTEXT, ...IDS].flatMap((name): [string, string][] => {
    const text = members.optionalText(name);
    return text === undefined ? [] : [[name, text]];
  });
  for (const [name, text] of texts) {
    if (text.length > EXPLAIN_TEXT_CHARS_MAX || !isWellFormed(text)) {
      throw new Problem(400, 'invalid_body', `The member "${name}" has more than ${EXPLAIN_TEXT_CHARS_MAX} characters, or half of a surrogate pair.`);
    }
  }
  const ids = texts.filter(([name]) => IDS.includes(name));
  if (ids.length > 1) throw new Problem(400, 'invalid_body', 'The body has both "anonId" and "userId".');
  const query = new URLSearchParams(texts.filter(([name]) => !IDS.includes(name)));
  return { query, visitor: ids.length > 0 ? String(new URLSearchParams(ids)) : null };
}

/** Asks for a decision. The ID of a visitor is in a header, because proxies log URLs. */
export async function explain(ask: AskAdmin, site: string, { query, visitor }: Question): Promise<object> {
  const full = new URLSearchParams([['site', site], ...query, ['explain', '1']]);
  if (String(full).length > EXPLAIN_URL_CHARS_MAX) {
    throw new Problem(400, 'invalid_body', `The texts of the visitor have more than ${EXPLAIN_URL_CHARS_MAX} characters in a URL.`);
  }
  const answer = await ask('/v1/variants', full, visitor === null ? {} : { 'x-visitor': visitor });
  const { type } = Object(answer) as { type?: unknown };
  return pick(answer, type === 'redirect' ? REDIRECT : DECISION);
}

/** Returns an object with the own members of these names. */
export function pick(value: unknown, names: readonly string[]): object {
  return Object.fromEntries(Object.entries(Object(value)).filter(([name]) => names.includes(name)));
}
