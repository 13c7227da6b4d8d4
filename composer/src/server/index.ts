export type { Change, Conflict, Revision, Save, Saved, SiteFile, Storage, User } from './storage.js';
