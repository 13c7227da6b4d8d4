/** `edge.wasm`, compressed by gzip and in base64. `build.mjs` writes the module. */
export declare const EDGE_MODULE: string;
