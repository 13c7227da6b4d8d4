import { StorageError, type StorageErrorCode } from './errors.js';
import { GitHubError, type GitHubErrorCode } from './github/errors.js';

/** A refusal as problem JSON (RFC 9457). */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    readonly detail: string,
    readonly more: { members?: object; headers?: Record<string, string> } = {},
  ) {
    super(detail);
  }

  toResponse(): Response {
    const body = JSON.stringify({ code: this.code, detail: this.detail, status: this.status, ...this.more.members });
    const headers = { 'content-type': 'application/problem+json', 'cache-control': 'no-store', 'x-content-type-options': 'nosniff', 'referrer-policy': 'no-referrer', ...this.more.headers };
    return new Response(body, { status: this.status, headers });
  }
}

const STATUS: Record<StorageErrorCode | GitHubErrorCode, number> = {
  invalid_path: 400,
  invalid_save: 400,
  not_utf8: 400,
  link: 400,
  not_a_file: 400,
  message_too_long: 413,
  file_too_large: 413,
  too_many_files: 413,
  too_many_changes: 413,
  site_too_large: 413,
  revision_not_found: 404,
  revision_changed: 409,
  locked: 503,
  unfinished: 503,
  disk_full: 507,
  no_directory: 500,
  read_only: 500,
  journal_damaged: 500,
  journal_newer: 500,
  recovery_conflict: 500,
  git_failed: 500,
  storage_failed: 500,
  site_invalid: 422,
  publish_failed: 500,
  publish_timeout: 504,
  source_unreachable: 502,
  version_not_found: 404,
  versions_changed: 409,
  save_too_large: 413,
  rate_limited: 503,
  request_limit: 503,
  bad_option: 500,
  no_token: 500,
  // GitHub refused a request, or did not answer it. The message says what to do.
  bad_token: 502,
  forbidden: 502,
  protected: 502,
  not_found: 502,
  conflict: 502,
  refused: 502,
  redirected: 502,
  unreachable: 502,
  timeout: 502,
  bad_answer: 502,
  outcome_unknown: 502,
};

/** Seconds after which a client tries again where nothing says when. */
const RETRY_S = 2;

/** Returns whether the error is a refusal of a storage, whose message is for the people who edit. */
export const isRefusal = (error: unknown): error is StorageError => error instanceof StorageError;

/** Returns the problem of a storage's refusal. */
export function problemOf(error: StorageError): Problem {
  const status = STATUS[error.code];
  const retryAt = error instanceof GitHubError ? error.retryAt : undefined;
  const seconds = retryAt === undefined ? RETRY_S : Math.max(1, Math.ceil((retryAt - Date.now()) / 1000));
  return new Problem(status, error.code, error.message, {
    ...(status === 503 && { headers: { 'retry-after': `${seconds}` } }),
    ...(error.mistakes && { members: { errors: error.mistakes } }),
  });
}
