// The module of WebAssembly, called with lists of byte strings.
import { readFileSync } from 'node:fs';

// Bytes of an output before its content: status and length.
const HEAD_BYTES = 8;

let compiled;

/** An instance of the module. A panic throws its text, and the instance cannot be used after that. */
export class Module {
  #exports;

  constructor() {
    compiled ??= new WebAssembly.Module(readFileSync(new URL('author.wasm', import.meta.url)));
    this.#exports = new WebAssembly.Instance(compiled, {}).exports;
    this.#exports.start(Math.random() * 2 ** 53);
  }

  /** Calls a function with byte strings and texts. Returns the bytes of its output. */
  call(name, strings) {
    const buffers = strings.map((string) => (typeof string === 'string' ? Buffer.from(string) : string));
    this.#exports.set_now_ms(Date.now());
    let at = this.#exports.input(buffers.reduce((sum, buffer) => sum + 4 + buffer.length, 0)) >>> 0;
    // The buffer of the memory is another one after the memory has grown.
    const memory = Buffer.from(this.#exports.memory.buffer);
    for (const buffer of buffers) {
      memory.writeUInt32LE(buffer.length, at);
      memory.set(buffer, at + 4);
      at += 4 + buffer.length;
    }
    let output;
    try {
      output = this.#exports[name]() >>> 0;
    } catch (error) {
      throw new Error(`${this.#read(this.#exports.last_panic() >>> 0).bytes}`, { cause: error });
    }
    const { isOk, bytes } = this.#read(output);
    if (!isOk) throw new Error(`${bytes}`);
    return bytes;
  }

  #read(at) {
    const memory = Buffer.from(this.#exports.memory.buffer);
    const bytes = Buffer.from(memory.subarray(at + HEAD_BYTES, at + HEAD_BYTES + memory.readUInt32LE(at + 4)));
    return { isOk: memory.readUInt32LE(at) === 0, bytes };
  }
}

/** Splits bytes into byte strings, each of which has its length before it. */
export function splitStrings(bytes) {
  const strings = [];
  for (let at = 0; at < bytes.length; ) {
    const end = at + 4 + bytes.readUInt32LE(at);
    strings.push(bytes.subarray(at + 4, end));
    at = end;
  }
  return strings;
}
