export { withParallaxConfig } from './next/config.js';
export { type GetLayoutOptions, type StaticParamsOptions, getLayout, staticParams, tagsOf } from './next/layout.js';
export { type PreviewOptions, previewHandler } from './next/preview.js';
export { type Proxy, type ProxyOptions, type ProxyResult, withParallax } from './next/proxy.js';
export { type RevalidateOptions, revalidateHandler } from './next/revalidate.js';
export { queryTag } from './next/tags.js';
