export { Composer, type ComposerProps } from './composer.js';
export type { FieldOverrides, NodeProps, Registry } from './puck-adapter.js';
