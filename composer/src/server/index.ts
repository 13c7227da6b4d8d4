export type { Change, Conflict, Revision, Save, Saved, SiteFile, Storage, User } from './storage.js';
export { githubStorage, type GitHubOptions } from './github.js';
export { GitHubError, type GitHubErrorCode } from './github/errors.js';
