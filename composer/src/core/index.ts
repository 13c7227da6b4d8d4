export type { Json, JsonObject } from './json.js';
