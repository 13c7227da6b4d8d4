// The author module in the browser: it checks the files of a site as `parallax lint` does, from memory.
import type { Vocabulary } from '../core/index.js';

interface ModuleExports {
  memory: WebAssembly.Memory;
  start(seed: number): void;
  set_now_ms(nowMs: number): void;
  input(length: number): number;
  last_panic(): number;
  run(): number;
}

/** A mistake or a warning of the program. */
export interface Diagnostic {
  file: string;
  line?: number;
  column?: number;
  pointer?: string;
  title: string;
  expected?: string;
  found?: string;
  help?: string[];
}
export interface Report {
  errors: Diagnostic[];
  warnings: Diagnostic[];
}

/** The directory of the site for the module. */
const ROOT = '/site';
/** Bytes of the status and the length before the content of an output, and of the length before each byte string. */
const HEAD_BYTES = 8;
const LENGTH_BYTES = 4;
/** Runs until the module has all that it reads: one for each level of directories, and one for the files. */
const RUNS_MAX = 100;

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** Returns the listing of each directory: for each entry its kind, its name and a zero byte. */
function listings(files: Record<string, string>): Map<string, string> {
  const entries = new Map<string, Map<string, string>>([[ROOT, new Map()]]);
  for (const file of Object.keys(files)) {
    const names = file.split('/');
    names.forEach((name, at) => {
      const directory = [ROOT, ...names.slice(0, at)].join('/');
      if (!entries.has(directory)) entries.set(directory, new Map());
      entries.get(directory)!.set(name, at === names.length - 1 ? 'f' : 'd');
    });
  }
  return new Map([...entries].map(([directory, names]) => [directory, [...names].map(([name, kind]) => `${kind}${name}\0`).join('')]));
}

const encoded = (strings: string[]): Uint8Array[] => strings.map((string) => encoder.encode(string));

/** Returns the record of a directory with its listing, of a file with its text, or of a path without either. No path is a link. */
function factOf(path: string, isDirectory: boolean, source: string | undefined): Uint8Array[] {
  if (isDirectory) return encoded(['fact', path, path, 'directory', '0', '', source!]);
  if (source === undefined) return encoded(['fact', path, path, 'unreadable', '0', 'ENOENT 2 no such file or directory', '']);
  const content = encoder.encode(source);
  return [...encoded(['fact', path, path, 'file', `${content.length}`, '']), content];
}

/** A file or a directory as the module reads it. */
interface Fact {
  source: string | undefined;
  strings: Uint8Array[];
}

/** Checks files with an instance of the module. */
export class Author {
  readonly #module: WebAssembly.Module;
  #exports: ModuleExports | null = null;
  /** What the module has read, by path. The next check gives it all of this at once, and reads only changed texts again. */
  #facts = new Map<string, Fact>();

  constructor(module: WebAssembly.Module) {
    this.#module = module;
  }

  /** Returns the vocabulary of conditions of the program. */
  vocabulary(): Vocabulary {
    const records = this.#call(encoded(['argument', 'schema', 'argument', 'conditions']));
    return JSON.parse(records.find(([tag]) => tag === 'output')![1]!);
  }

  /** Returns all mistakes of the files. Throws if the module stops; the next call begins with a new instance. */
  lint(files: Record<string, string>): Report {
    const directories = listings(files);
    const facts = this.#facts;
    const read = (path: string): void => {
      const name = path.slice(ROOT.length + 1);
      const listing = directories.get(path);
      const source = listing ?? (path.startsWith(`${ROOT}/`) && Object.hasOwn(files, name) ? files[name]! : undefined);
      const known = facts.get(path);
      if (known && known.source === source) return;
      facts.set(path, { source, strings: factOf(path, listing !== undefined, source) });
    };
    [...facts.keys()].forEach(read);
    const words = encoded(['argument', 'lint', 'argument', ROOT, 'argument', '--format', 'argument', 'json']);
    for (let run = 0; run < RUNS_MAX; run += 1) {
      const records = this.#call([...words, ...[...facts.values()].flatMap(({ strings }) => strings)]);
      const needs = records.filter(([tag]) => tag === 'need').map(([, path]) => path!);
      if (needs.length === 0) {
        const { errors, warnings } = JSON.parse(records.find(([tag]) => tag === 'output')?.[1] ?? '{}');
        this.#forget(directories, files);
        return { errors: errors ?? [], warnings: warnings ?? [] };
      }
      needs.forEach(read);
    }
    throw new Error('The module of the compiler reads the site again and again.');
  }

  /** Forgets removed files, so that the facts do not grow with each rename. */
  #forget(directories: Map<string, string>, files: Record<string, string>): void {
    for (const path of this.#facts.keys()) {
      if (!directories.has(path) && !Object.hasOwn(files, path.slice(ROOT.length + 1))) this.#facts.delete(path);
    }
  }

  #call(bytes: Uint8Array[]): string[][] {
    try {
      const exports = (this.#exports ??= this.#start());
      exports.set_now_ms(Date.now());
      let at = exports.input(bytes.reduce((sum, { length }) => sum + LENGTH_BYTES + length, 0)) >>> 0;
      const memory = new Uint8Array(exports.memory.buffer);
      const view = new DataView(exports.memory.buffer);
      for (const string of bytes) {
        view.setUint32(at, string.length, true);
        memory.set(string, at + LENGTH_BYTES);
        at += LENGTH_BYTES + string.length;
      }
      return readRecords(this.#read(exports.run() >>> 0));
    } catch (error) {
      const text = this.#panic() || String(error);
      this.#exports = null;
      throw new Error(`The compiler stopped: ${text}`, { cause: error });
    }
  }

  #start(): ModuleExports {
    const exports = new WebAssembly.Instance(this.#module, {}).exports as unknown as ModuleExports;
    exports.start(Math.random() * 2 ** 53);
    return exports;
  }

  #read(at: number): Uint8Array {
    const view = new DataView(this.#exports!.memory.buffer, at, HEAD_BYTES);
    const content = new Uint8Array(this.#exports!.memory.buffer, at + HEAD_BYTES, view.getUint32(4, true)).slice();
    if (view.getUint32(0, true) !== 0) throw new Error(decoder.decode(content));
    return content;
  }

  #panic(): string {
    try {
      const at = this.#exports!.last_panic() >>> 0;
      const view = new DataView(this.#exports!.memory.buffer, at, HEAD_BYTES);
      return decoder.decode(new Uint8Array(this.#exports!.memory.buffer, at + HEAD_BYTES, view.getUint32(4, true)));
    } catch {
      return '';
    }
  }
}

/** Fields of each kind of record after its tag. */
const FIELDS: Record<string, number> = { need: 2, code: 1, output: 1, errors: 1, directory: 1, write: 2, replace: 2, delete: 1, serve: 2 };

function readRecords(bytes: Uint8Array): string[][] {
  const strings: string[] = [];
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let at = 0; at < bytes.length; ) {
    const length = view.getUint32(at, true);
    strings.push(decoder.decode(bytes.subarray(at + LENGTH_BYTES, at + LENGTH_BYTES + length)));
    at += LENGTH_BYTES + length;
  }
  const records: string[][] = [];
  for (let at = 0; at < strings.length; ) {
    const count = FIELDS[strings[at]!];
    if (count === undefined) throw new Error(`unknown record ${strings[at]}`);
    records.push(strings.slice(at, at + 1 + count));
    at += 1 + count;
  }
  return records;
}
