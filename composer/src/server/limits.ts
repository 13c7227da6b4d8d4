/** The limits of the server part. */

/** Bytes of one file: the limit of a file in `routes/` in the compiler. A larger one is an export, which nobody edits by hand. */
export const FILE_BYTES_MAX = 8 << 20;
/** Files of a site. Each save and each listing reads all of them. */
export const FILES_MAX = 10_000;
/** Bytes of all files of a site. The editor has all of them in the memory of a browser. */
export const SITE_BYTES_MAX = 64 << 20;
/** Changes of one save. An experiment over all its pages is one save. */
export const CHANGES_MAX = 500;
/** Bytes of the message of a save. It is a message of a commit, which people read. GitHub allows 65,536 characters for the text of a pull request. */
export const MESSAGE_BYTES_MAX = 4_096;
/** Bytes of a path. Below the limit of Windows for a path, with space for a site directory. */
export const PATH_BYTES_MAX = 200;
/** Bytes of the name, and of the e-mail address, of a user. */
export const USER_BYTES_MAX = 256;
/** Characters of a revision. A SHA-256 in hex has 64. */
export const REVISION_CHARS_MAX = 128;

/** Files of a site on GitHub. The first listing needs a request for each, of the 5,000 that GitHub allows in an hour. */
export const GITHUB_FILES_MAX = 2_000;
/** Bytes of all texts of a save on GitHub. They are one request, for which GitHub takes at most 10 s. */
export const GITHUB_SAVE_BYTES_MAX = 8 << 20;

/** Files that a listing reads at the same time. Node reads files in four threads. */
export const READS_MAX = 8;
/** Bytes of a journal: the largest save has paths and hashes of less than half of this. */
export const JOURNAL_BYTES_MAX = 1 << 20;
/** Bytes of a lock file. */
export const LOCK_BYTES_MAX = 4_096;
/** A save or listing that gets no lock within this time is refused. Another save takes less than a second, a publication more. */
export const LOCK_WAIT_MS = 20_000;
/** The bounds of the wait before a lock is tried again. It doubles from the first to the second. */
export const LOCK_RETRY_MIN_MS = 2;
export const LOCK_RETRY_MAX_MS = 50;
/** A save whose files are changed by hand between its check and its renames is checked again so often. */
export const SAVE_ATTEMPTS_MAX = 3;
/** A directory that this process cannot lock is read until two readings in a row are equal, at most so often. */
export const READINGS_MAX = 6;
/** Deadline of one command of git, with its hooks. */
export const GIT_MS = 60_000;
/** Bytes of the output of one command of git: all files of a site, and their names. */
export const GIT_BYTES_MAX = SITE_BYTES_MAX + (16 << 20);
/** Revisions of one answer about the history. */
export const HISTORY_MAX = 200;

/** Deadline of one run of the program for a publication. A large site compiles in a few seconds. */
export const PROGRAM_MS = 60_000;
/** Bytes of the output of one run that are kept. The 100 mistakes of `lint --format json` have less than half of this. */
export const PROGRAM_OUTPUT_BYTES_MAX = 1 << 20;
/** Published versions of one list. `compile` keeps five of a site. */
export const VERSIONS_MAX = 20;
/** Mistakes of one refused publication: as many as `lint --format json` lists. */
export const MISTAKES_MAX = 100;
/** Age at which the copy of a site that a killed publication left is removed. No run takes this long. */
export const COPY_LEFT_MS = 3_600_000;

/** Characters of the secret of the links to previews. A random one of this length cannot be guessed. */
export const PREVIEW_SECRET_CHARS_MIN = 32;
/** Days for which a link to a preview is valid: without a choice as those of the SDK, and at most. */
export const PREVIEW_DAYS_DEFAULT = 7;
export const PREVIEW_DAYS_MAX = 30;
/** Characters of a token. A path and a name of the largest size have less than half of this in base64url. */
export const PREVIEW_TOKEN_CHARS_MAX = 2_048;

/** Time for which the page of a link is kept, so that a person with a link cannot use up the requests that GitHub allows in an hour. */
export const PREVIEW_KEPT_MS = 60_000;
/** Pages of links that are kept, and the characters of one. At the limit the oldest is dropped. A longer page is read each time. */
export const PREVIEWS_KEPT_MAX = 20;
export const PREVIEW_KEPT_CHARS_MAX = 1 << 20;

/** Bytes of the body of a save: all files of a site in JSON, which escapes quotes and ends of lines. */
export const SAVE_BODY_BYTES_MAX = 2 * SITE_BYTES_MAX;
/** Bytes of any other body. The admin address takes a target of 8 KiB. */
export const BODY_BYTES_MAX = 64 << 10;
/** Bytes of an answer of the admin address. The sizes of 1,000 audiences with long conditions have less than half of this. */
export const ADMIN_BYTES_MAX = 8 << 20;
/** Deadline of a request to the admin address, with its body. A count of the audiences over a large table takes seconds. */
export const ADMIN_MS = 10_000;
/** Characters of one text of a question about a visitor, and of all of them in a URL. The admin address takes a target of 8 KiB. */
export const EXPLAIN_TEXT_CHARS_MAX = 4_096;
export const EXPLAIN_URL_CHARS_MAX = 8_000;
