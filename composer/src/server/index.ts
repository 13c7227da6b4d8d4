export { type AdminSettings } from './admin.js';
export { StorageError, type StorageErrorCode } from './errors.js';
export { type FileStorageOptions, fileStorage } from './files.js';
export { type HandlerOptions, type Role, type Session, composerHandler } from './handler.js';
export type { Change, Conflict, Revision, Save, Saved, SiteFile, Storage, User } from './storage.js';
export { githubStorage, type GitHubOptions } from './github.js';
export { GitHubError, type GitHubErrorCode } from './github/errors.js';
