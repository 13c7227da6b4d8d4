export type { Json, JsonObject } from './json.js';
export { patch } from './patch.js';
export { PatchError } from './source.js';
