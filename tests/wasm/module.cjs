// A module of WebAssembly, called with lists of byte strings.
'use strict';
const { readFileSync } = require('node:fs');

// Bytes of an output before its content: status and length.
const HEAD_BYTES = 8;

class Module {
  static async load(file) {
    const { instance } = await WebAssembly.instantiate(readFileSync(file), {});
    instance.exports.start(Math.random() * 2 ** 53);
    return new Module(instance.exports);
  }

  constructor(exports) {
    this.exports = exports;
  }

  // Calls a function. Returns { isOk, bytes }. A panic throws its text.
  call(name, strings) {
    const { exports } = this;
    exports.set_now_ms(Date.now());
    const from = exports.input(strings.reduce((sum, string) => sum + 4 + string.length, 0));
    // The buffer of the memory is another one after the memory has grown.
    const memory = Buffer.from(exports.memory.buffer);
    let at = from;
    for (const string of strings) {
      memory.writeUInt32LE(string.length, at);
      memory.set(string, at + 4);
      at += 4 + string.length;
    }
    let output;
    try {
      output = exports[name]();
    } catch (error) {
      throw new Error(this.#read(exports.last_panic()).bytes.toString(), { cause: error });
    }
    return this.#read(output);
  }

  #read(at) {
    const memory = Buffer.from(this.exports.memory.buffer);
    const bytes = Buffer.from(memory.subarray(at + HEAD_BYTES, at + HEAD_BYTES + memory.readUInt32LE(at + 4)));
    return { isOk: memory.readUInt32LE(at) === 0, bytes };
  }
}

// Splits a content that is a list of outputs.
function outputsIn(bytes) {
  const outputs = [];
  for (let at = 0; at < bytes.length; ) {
    const length = bytes.readUInt32LE(at + 4);
    outputs.push(bytes.subarray(at + HEAD_BYTES, at + HEAD_BYTES + length));
    at += HEAD_BYTES + length;
  }
  return outputs;
}

module.exports = { Module, outputsIn };
