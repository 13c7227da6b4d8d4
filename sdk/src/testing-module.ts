/** The module of WebAssembly that is a server in memory, and the border to it. */

import { readFileSync } from 'node:fs';

/** The exports of `author.wasm`. Each function returns the address of its output. */
interface Exports {
  memory: WebAssembly.Memory;
  start(seed: number): void;
  set_now_ms(nowMs: number): void;
  input(length: number): number;
  last_panic(): number;
  compile(): number;
  serve(): number;
  publish(): number;
  answer(): number;
}

/** Bytes of the length before each byte string of an input. */
const LENGTH_BYTES = 4;
/** Bytes of the status and of the length before the content of an output. */
const OUTPUT_HEAD_BYTES = 8;

const encoder = new TextEncoder();
const decoder = new TextDecoder();

let compiled: WebAssembly.Module | undefined;

/** Returns the module of the package, which is compiled once. */
function packagedModule(): WebAssembly.Module {
  return (compiled ??= new WebAssembly.Module(readFileSync(new URL('./author.wasm', import.meta.url))));
}

/** An instance of the module. After a panic each call throws its text. */
export class ServerModule {
  readonly #exports: Exports;
  #panic: Error | undefined;

  constructor() {
    this.#exports = new WebAssembly.Instance(packagedModule(), {}).exports as unknown as Exports;
    this.#exports.start(Math.random() * 2 ** 53);
  }

  /** Compiles a site to a snapshot. Throws the report of its errors. */
  compile(files: [path: string, text: string][], version: number): Uint8Array {
    const output = this.#call('compile', [String(version), ...files.flat()]);
    const length = new DataView(output.buffer, output.byteOffset).getUint32(LENGTH_BYTES, true);
    return output.slice(OUTPUT_HEAD_BYTES, OUTPUT_HEAD_BYTES + length);
  }

  /** Starts the server, in which requests may have `now`. */
  serve(snapshot: Uint8Array): void {
    this.#call('serve', [snapshot, 'dev', '']);
  }

  /** Replaces the snapshot. */
  publish(snapshot: Uint8Array): void {
    this.#call('publish', [snapshot]);
  }

  /** Returns the response to the bytes of a request. */
  answer(request: Uint8Array): Uint8Array {
    return this.#call('answer', [request]);
  }

  #call(name: 'compile' | 'serve' | 'publish' | 'answer', strings: (string | Uint8Array)[]): Uint8Array {
    if (this.#panic) throw this.#panic;
    const exports = this.#exports;
    exports.set_now_ms(Date.now());
    this.#write(strings.map((string) => (typeof string === 'string' ? encoder.encode(string) : string)));
    let at: number;
    try {
      at = exports[name]();
    } catch (error) {
      this.#panic = new Error(decoder.decode(this.#read(exports.last_panic()).content) || String(error), { cause: error });
      throw this.#panic;
    }
    const { isOk, content } = this.#read(at);
    if (!isOk) throw new Error(decoder.decode(content));
    return content;
  }

  /** Writes the byte strings of an input. The buffer of the memory is another one after it has grown. */
  #write(strings: Uint8Array[]): void {
    const from = this.#exports.input(strings.reduce((sum, { length }) => sum + LENGTH_BYTES + length, 0));
    const memory = new Uint8Array(this.#exports.memory.buffer);
    const view = new DataView(this.#exports.memory.buffer);
    let at = from;
    for (const string of strings) {
      view.setUint32(at, string.length, true);
      memory.set(string, at + LENGTH_BYTES);
      at += LENGTH_BYTES + string.length;
    }
  }

  /** Reads an output. The content is a copy, because the next call overwrites the output. */
  #read(at: number): { isOk: boolean; content: Uint8Array } {
    const head = new DataView(this.#exports.memory.buffer, at, OUTPUT_HEAD_BYTES);
    const length = head.getUint32(LENGTH_BYTES, true);
    return { isOk: head.getUint32(0, true) === 0, content: new Uint8Array(this.#exports.memory.buffer, at + OUTPUT_HEAD_BYTES, length).slice() };
  }
}
