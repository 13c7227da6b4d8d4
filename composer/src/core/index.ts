export type { Json, JsonObject } from './json.js';
export type { Layout, LayoutNode, PersonalizedZone, Zone } from './layout.js';
export { LayoutError, NODE_NESTING_MAX } from './layout.js';
export type { Data, HiddenZone, NodeProps, PuckNode, RootProps } from './map.js';
export { choose, chosenOf, fromPuck, toPuck, withoutDuplicateZones } from './map.js';
export type { Change } from './variants.js';
export { addVariant, removeVariant, renameVariant } from './variants.js';
