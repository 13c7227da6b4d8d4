import { StorageError } from '../errors.js';

/** The reasons of failures that only GitHub has. */
export type GitHubErrorCode =
  | 'bad_option'
  | 'no_token' // the option gives none
  | 'bad_token' | 'forbidden' | 'protected' | 'not_found' | 'conflict' | 'refused' // answers of GitHub
  | 'rate_limited' // until `retryAt`
  | 'redirected' // to another host, or too often
  | 'request_limit' // of one call
  | 'unreachable' | 'timeout' | 'bad_answer'
  | 'outcome_unknown'; // the save may have a pull request

export interface GitHubErrorMembers {
  status?: number;
  retryAt?: number;
}

/** A failure of the storage on GitHub. Its message says what happened and what to do, and never holds the token. */
export class GitHubError extends StorageError {
  override readonly name = 'GitHubError';
  declare readonly code: GitHubErrorCode;
  /** The HTTP status of GitHub, 0 where no response arrived. */
  readonly status: number;
  /** The time from which GitHub accepts requests again, in milliseconds since 1970. */
  readonly retryAt?: number;

  constructor(code: GitHubErrorCode, message: string, { status = 0, retryAt }: GitHubErrorMembers = {}) {
    super(code, message);
    this.status = status;
    if (retryAt !== undefined) this.retryAt = retryAt;
  }

  /** True if GitHub may have done the work of the request all the same. */
  get isUnclear(): boolean {
    return ['unreachable', 'timeout', 'bad_answer'].includes(this.code);
  }
}

/** A response of GitHub: the body is the JSON, or undefined for another body. */
export interface Reply {
  status: number;
  headers: Headers;
  body: unknown;
}

/** GitHub asks clients to wait at least this long after a rate limit without a time. */
const RATE_DEFAULT_MS = 60_000;
/** GitHub's own words are cut here, so that an error stays readable. */
const QUOTED_CHARS_MAX = 300;

/** Makes the error of a refused request, in plain words. `target` is the method and the path. */
export function errorOf(target: string, repository: string, reply: Reply, now: number): GitHubError {
  const { status } = reply;
  const said = quoted(reply.body);
  const retryAt = rateLimitOf(reply, said, now);
  if (retryAt !== null) {
    const time = new Date(retryAt).toISOString();
    return new GitHubError('rate_limited', `The rate limit of GitHub for this token is exceeded; try again after ${time}.`, { status, retryAt });
  }
  const fail = (code: GitHubErrorCode, text: string) => new GitHubError(code, text, { status });
  if (status === 401) return fail('bad_token', `GitHub refused the token${said}. It expired or was revoked; give the composer a new one.`);
  if (/rule violations|protected branch/i.test(said)) {
    return fail('protected', `A rule of ${repository} refused ${target}${said}. Let the token's account create branches named composer/**.`);
  }
  if (status === 403) return fail('forbidden', `GitHub does not allow ${target} for this token${said}. ${permissionOf(reply.headers)}`);
  if (status === 404 || status === 410 || status === 451) {
    const text = `GitHub has no ${target} for this token${said}. Check the name, and the token's permission "contents" for ${repository}.`;
    return fail('not_found', text);
  }
  if (status === 409) return fail('conflict', `GitHub could not do ${target}${said}. A repository needs a first commit; else try again.`);
  if (status === 422) return fail('refused', `GitHub refused ${target}${said}.`);
  if (status === 408 || status >= 500) return fail('unreachable', `GitHub failed at ${target} with status ${status}${said}; try again.`);
  return fail('bad_answer', `GitHub answered ${target} with status ${status}${said}. Check the URL of the API.`);
}

/** Returns the message of GitHub and its details in parentheses, or nothing. */
function quoted(body: unknown): string {
  const { message, errors } = (body ?? {}) as { message?: unknown; errors?: unknown };
  const detailOf = (error: any) => error?.message ?? [error?.resource, error?.field, error?.code].filter(Boolean).join(' ');
  const details = (Array.isArray(errors) ? errors : []).map(detailOf);
  const words = [message, ...details].filter((word) => typeof word === 'string' && word);
  const text = words.join('; ').replace(/\p{C}+/gu, ' ').replace(/[. ]+$/, '');
  return text && ` (GitHub: ${text.slice(0, QUOTED_CHARS_MAX)})`;
}

/** Returns the time at which a rate limit ends, or null for another answer. */
function rateLimitOf({ status, headers }: Reply, said: string, now: number): number | null {
  if (status !== 429 && status !== 403) return null;
  const after = headers.get('retry-after');
  if (after !== null) {
    const at = /^\d+$/.test(after) ? now + Number(after) * 1000 : Date.parse(after);
    return validTime(at, now);
  }
  if (headers.get('x-ratelimit-remaining') === '0') return validTime(Number(headers.get('x-ratelimit-reset') ?? NaN) * 1000, now);
  return status === 429 || /rate limit|abuse/i.test(said) ? now + RATE_DEFAULT_MS : null;
}

/** Returns the time, or that of a wait without a time if the header was none or is out of the range of a date. */
function validTime(at: number, now: number): number {
  return at >= 0 && at <= 8.64e15 ? Math.max(at, now) : now + RATE_DEFAULT_MS;
}

/** Says which permission is missing, by the headers of a refusal. */
function permissionOf(headers: Headers): string {
  const sso = /url=(https:\/\/[^\s;,]+)/.exec(headers.get('x-github-sso') ?? '')?.[1];
  if (sso) return `The organization requires single sign-on; authorize the token at ${sso}`;
  const permissions = headers.get('x-accepted-github-permissions');
  if (permissions) return `Give the token the permission ${permissions}.`;
  const scopes = headers.get('x-accepted-oauth-scopes');
  if (scopes) return `Give the token the scope ${scopes}; it has ${headers.get('x-oauth-scopes') || 'none'}.`;
  return 'The token needs "contents: write" and "pull requests: write" for the repository.';
}
