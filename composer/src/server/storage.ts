export interface User { name: string; email: string }
export interface SiteFile { text: string; etag: string }              // etag: hex SHA-256 of the bytes
export interface Change { path: string; text: string | null; etag: string | null }   // null text removes; null etag: the file must not exist
export interface Save { base: string; changes: Change[]; message: string; author: User }
export interface Saved { kind: 'saved'; revision: string; url?: string }            // url: of the pull request
export interface Conflict { kind: 'conflict'; revision: string; files: Record<string, SiteFile | null> }  // the present state of each file that differs
export interface Revision { revision: string; message: string; author: string; at: string }
/** The result of a publication, as a sentence for people. `version` is that of the snapshot, `url` is the place that shows more. */
export interface Published { status: string; version?: string; url?: string }
/** A published version of the site. `at` is its time, if it is known. */
export interface Version { version: string; at: string | null; isServed: boolean }
export interface Storage {
  list(): Promise<{ revision: string; files: Record<string, SiteFile> }>;
  save(save: Save): Promise<Saved | Conflict>;
  history?(limit: number): Promise<Revision[]>;
  /** The files as of a revision of the history. */
  at?(revision: string): Promise<Record<string, SiteFile>>;
  publish?(revision: string): Promise<Published>;
  /** The published versions, the newest first. */
  versions?(): Promise<Version[]>;
  /** Publishes an earlier version again. `newest` is the newest version that the person saw. */
  rollback?(version: string, newest: string): Promise<Published>;
}
