/** The module of WebAssembly that decides, and the border to it. */

/** The exports of `edge.wasm`. Each function returns the address of its output. */
interface ModuleExports {
  memory: WebAssembly.Memory;
  start(seed: number): void;
  set_now_ms(nowMs: number): void;
  input(length: number): number;
  last_panic(): number;
  open_rules(): number;
  decide(): number;
}

/** Bytes of the length before each byte string of an input. */
const LENGTH_BYTES = 4;
/** Bytes of the status and of the length before the content of an output. */
const OUTPUT_HEAD_BYTES = 8;

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** The output of a function: its content, or the text of a refusal. */
export interface Output {
  isOk: boolean;
  text: string;
}

/** A panic of the module. Its instance must not be called again. */
export class ModuleTrap extends Error {}

/** An instance of the module. */
export interface Instance {
  call(name: 'open_rules' | 'decide', strings: readonly (string | Uint8Array)[]): Output;
}

export function instantiate(module: WebAssembly.Module): Instance {
  const exports = new WebAssembly.Instance(module, {}).exports as unknown as ModuleExports;
  const [high, low] = crypto.getRandomValues(new Uint32Array(2));
  exports.start((high! >>> 11) * 2 ** 32 + low!); // 53 bits

  function read(at: number): Output {
    const head = new DataView(exports.memory.buffer, at, OUTPUT_HEAD_BYTES);
    const content = new Uint8Array(exports.memory.buffer, at + OUTPUT_HEAD_BYTES, head.getUint32(4, true));
    return { isOk: head.getUint32(0, true) === 0, text: decoder.decode(content) };
  }

  /** Writes the byte strings of an input. The buffer of the memory is another one after it has grown. */
  function write(strings: Uint8Array[]): void {
    const from = exports.input(strings.reduce((sum, { length }) => sum + LENGTH_BYTES + length, 0));
    const memory = new Uint8Array(exports.memory.buffer);
    const view = new DataView(exports.memory.buffer);
    let at = from;
    for (const string of strings) {
      view.setUint32(at, string.length, true);
      memory.set(string, at + LENGTH_BYTES);
      at += LENGTH_BYTES + string.length;
    }
  }

  return {
    call(name, strings) {
      try {
        write(strings.map((string) => (typeof string === 'string' ? encoder.encode(string) : string)));
        exports.set_now_ms(Date.now());
        return read(exports[name]());
      } catch (error) {
        throw new ModuleTrap(panicOf(read, exports) || String(error), { cause: error });
      }
    },
  };
}

/** Returns the text of the last panic. A trap without a panic, such as the end of the memory, has none. */
function panicOf(read: (at: number) => Output, { last_panic }: ModuleExports): string {
  try {
    return read(last_panic()).text;
  } catch {
    return '';
  }
}

/** A module, or its bytes. */
export type ModuleSource = WebAssembly.Module | BufferSource;

/** Compiles the module, by default that of the package. */
export async function compile(source?: ModuleSource): Promise<WebAssembly.Module> {
  if (source instanceof WebAssembly.Module) return source;
  return WebAssembly.compile(source ?? (await packagedModule()));
}

/** Returns the module of the package. Its text is a module of JavaScript, which each bundler finds and Node loads without a path. */
async function packagedModule(): Promise<ArrayBuffer> {
  const { EDGE_MODULE } = await import('./edge-module.js');
  const compressed = Uint8Array.from(atob(EDGE_MODULE), (character) => character.charCodeAt(0));
  return new Response(new Blob([compressed]).stream().pipeThrough(new DecompressionStream('gzip'))).arrayBuffer();
}
