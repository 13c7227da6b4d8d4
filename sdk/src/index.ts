export { type Client, createClient } from './client.js';
export { type StaticCombination, fromSegments, staticCombinations, toSegments, wellFormed } from './combination.js';
export { type Choice, type Decide, createDecide } from './decide.js';
export { ParallaxError } from './errors.js';
export { handOver } from './hand-over.js';
export { type PreviewLinkOptions, previewLink, signPreview, userHash } from './signature.js';
export type * from './types.js';
export { type IdCookie, type RequestVisitor, type VisitorOptions, visitorFrom } from './visitor.js';
