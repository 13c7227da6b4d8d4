export { type AdminSettings } from './admin.js';
export { type Mistake, StorageError, type StorageErrorCode } from './errors.js';
export { type FileStorageOptions, fileStorage } from './files.js';
export { type Feature, type HandlerOptions, type Role, type Session, composerHandler } from './handler.js';
export { type Publisher, type ProgramOptions, type SourceOptions, publishToSource, publishWithProgram } from './publisher.js';
export type { Change, Conflict, Published, Revision, Save, Saved, SiteFile, Storage, User, Version } from './storage.js';
export { githubStorage, type GitHubOptions } from './github.js';
export { GitHubError, type GitHubErrorCode } from './github/errors.js';
