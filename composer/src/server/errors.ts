import type { GitHubErrorCode } from './github/errors.js';

/** The reasons for which a storage refuses a request. */
export type StorageErrorCode =
  | 'invalid_path' // a path that no file of a site has
  | 'invalid_save' // another fault of a save
  | 'file_too_large' | 'too_many_files' | 'site_too_large' | 'too_many_changes' | 'save_too_large' | 'message_too_long'
  | 'link' // nothing is written through a symbolic link
  | 'not_a_file' // a directory or a special file is in the place of a file, or a file in that of a directory
  | 'not_utf8'
  | 'no_directory' // the site directory is missing
  | 'read_only' | 'disk_full'
  | 'locked' // another process had the lock for too long
  | 'journal_damaged' | 'journal_newer' | 'recovery_conflict' // a begun save needs a person
  | 'unfinished' // the next request finishes the save
  | 'revision_not_found' | 'revision_changed'
  | 'git_failed' | 'storage_failed'
  | 'site_invalid' // the program refuses to compile the site
  | 'publish_failed' | 'publish_timeout' | 'source_unreachable'
  | 'version_not_found' | 'versions_changed';

/** Returns whether a storage has no such revision. */
export function isRevisionMissing(error: unknown): boolean {
  return error instanceof StorageError && error.code === 'revision_not_found';
}

/** A mistake in a file of a site. */
export interface Mistake {
  file: string;
  title: string;
  line?: number;
  column?: number;
  pointer?: string;
  expected?: string;
  found?: string;
  help?: string[];
}

/** A refusal of a storage. The message is for the people who edit, and names no directory of the server. */
export class StorageError extends Error {
  override readonly name: string = 'StorageError';

  /** The mistakes of a site that cannot be compiled, as `lint --format json` lists them. */
  readonly mistakes?: Mistake[];

  constructor(readonly code: StorageErrorCode | GitHubErrorCode, message: string, { cause, mistakes }: { cause?: unknown; mistakes?: Mistake[] } = {}) {
    super(message, { cause });
    if (mistakes) this.mistakes = mistakes;
  }
}
