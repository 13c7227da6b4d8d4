export type { Json, JsonObject } from './json.js';
export { type Conflict, type Merged, merge } from './merge.js';
export { type FileConflict, type MergedFiles, mergeFiles } from './merge-files.js';
export { MergeError } from './moves.js';
export { patch } from './patch.js';
export { PatchError } from './source.js';
