import { StorageError, type StorageErrorCode } from './errors.js';

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
    const headers = { 'content-type': 'application/problem+json', 'cache-control': 'no-store', 'x-content-type-options': 'nosniff', ...this.more.headers };
    return new Response(body, { status: this.status, headers });
  }
}

const STATUS: Record<StorageErrorCode, number> = {
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
};

/** Returns the problem of a storage's refusal. */
export function problemOf({ code, message }: StorageError): Problem {
  const status = STATUS[code];
  return new Problem(status, code, message, status === 503 ? { headers: { 'retry-after': '2' } } : {});
}
