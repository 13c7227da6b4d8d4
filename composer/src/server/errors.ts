/** The reasons for which a storage refuses a request. */
export type StorageErrorCode =
  | 'invalid_path' // a path that no file of a site has
  | 'invalid_save' // another fault of a save
  | 'file_too_large' | 'too_many_files' | 'site_too_large' | 'too_many_changes' | 'message_too_long'
  | 'link' // nothing is written through a symbolic link
  | 'not_a_file' // a directory or a special file is in the place of a file, or a file in that of a directory
  | 'not_utf8'
  | 'no_directory' // the site directory is missing
  | 'read_only' | 'disk_full'
  | 'locked' // another process had the lock for too long
  | 'journal_damaged' | 'journal_newer' | 'recovery_conflict' // a begun save needs a person
  | 'unfinished' // the next request finishes the save
  | 'revision_not_found' | 'revision_changed'
  | 'git_failed' | 'storage_failed';

/** A refusal of a storage. The message is for the people who edit, and names no directory of the server. */
export class StorageError extends Error {
  override readonly name = 'StorageError';

  constructor(readonly code: StorageErrorCode, message: string, options?: { cause?: unknown }) {
    super(message, options);
  }
}
