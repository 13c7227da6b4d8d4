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

/** The changes from one version of a site to another, in the lines of `parallax lint --against`. Null if one of them has mistakes, or another ID. */
export type Comparison = string[] | null;

/** The limits of experiments, from the schema of the program. */
export interface ExperimentLimits {
  rampSteps: number;
  guardrails: number;
}

/** The directory of the site for the module, and that of the version to compare with. */
const ROOT = '/site';
const BASE = '/base';
/** Bytes of the status and the length before the content of an output, and of the length before each byte string. */
const HEAD_BYTES = 8;
const LENGTH_BYTES = 4;
/** Runs until the module has all that it reads: one for each level of directories, and one for the files. */
const RUNS_MAX = 100;

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** Returns the files with their paths in a directory. */
const filesIn = (directory: string, files: Record<string, string>): [string, string][] => Object.entries(files).map(([file, text]) => [`${directory}/${file}`, text]);

/** Returns the listing of each directory of some files: for each entry its kind, its name and a zero byte. */
function listings(roots: string[], files: Map<string, string>): Map<string, string> {
  const entries = new Map(roots.map((root) => [root, new Map<string, string>()]));
  for (const file of files.keys()) {
    const names = file.split('/');
    names.forEach((name, at) => {
      const directory = names.slice(0, at).join('/');
      if (!entries.has(directory)) entries.set(directory, new Map());
      entries.get(directory)!.set(name, at === names.length - 1 ? 'f' : 'd');
    });
  }
  return new Map([...entries].map(([directory, names]) => [directory, [...names].map(([name, kind]) => `${kind}${name}\0`).join('')]));
}

/** Checks files with an instance of the module. */
export class Author {
  readonly #module: WebAssembly.Module;
  #exports: ModuleExports | null = null;

  constructor(module: WebAssembly.Module) {
    this.#module = module;
  }

  /** Returns the vocabulary of conditions of the program. */
  vocabulary(): Vocabulary {
    const records = this.#call(['argument', 'schema', 'argument', 'conditions']);
    return JSON.parse(records.find(([tag]) => tag === 'output')![1]!);
  }

  /** Returns the limits of experiments of the program. */
  experimentLimits(): ExperimentLimits {
    const records = this.#call(['argument', 'schema', 'argument', 'route']);
    const { properties } = JSON.parse(records.find(([tag]) => tag === 'output')![1]!).$defs.Experiment;
    const ramp = properties.coverage.anyOf.find(({ type }: { type: string }) => type === 'array');
    return { rampSteps: ramp.maxItems, guardrails: properties.guardrails.maxItems };
  }

  /** Returns all mistakes of the files. Throws if the module stops; the next call begins with a new instance. */
  lint(files: Record<string, string>): Report {
    const { errors, warnings } = JSON.parse(this.#lint(['--format', 'json'], [ROOT], new Map(filesIn(ROOT, files))) || '{}');
    return { errors: errors ?? [], warnings: warnings ?? [] };
  }

  /** Returns what changes if the files replace those of `base`. */
  compare(base: Record<string, string>, files: Record<string, string>): Comparison {
    const output = this.#lint(['--against', BASE], [ROOT, BASE], new Map([...filesIn(ROOT, files), ...filesIn(BASE, base)]));
    // The first line names the base, and the last one counts the routes and the mistakes.
    return output === '' ? null : output.trim().split('\n').slice(1, -1);
  }

  /** Returns the standard output of `parallax lint` for files with their paths. It is empty if the files have mistakes and no format is given. */
  #lint(words: string[], roots: string[], files: Map<string, string>): string {
    const directories = listings(roots, files);
    const facts = new Map<string, string[]>();
    const factOf = (path: string): string[] => {
      const listing = directories.get(path);
      const content = files.get(path);
      if (listing !== undefined) return [path, 'directory', '0', '', listing];
      if (content === undefined) return [path, 'unreadable', '0', 'ENOENT 2 no such file or directory', ''];
      return [path, 'file', `${encoder.encode(content).length}`, '', content];
    };
    const command = ['lint', ROOT, ...words].flatMap((word) => ['argument', word]);
    for (let run = 0; run < RUNS_MAX; run += 1) {
      const known = [...facts].flatMap(([path, fields]) => ['fact', path, ...fields]);
      const records = this.#call([...command, ...known]);
      const needs = records.filter(([tag]) => tag === 'need').map(([, path]) => path!);
      if (needs.length === 0) return records.find(([tag]) => tag === 'output')?.[1] ?? '';
      for (const path of needs) facts.set(path, factOf(path));
    }
    throw new Error('The module of the compiler reads the site again and again.');
  }

  #call(strings: string[]): string[][] {
    try {
      const exports = (this.#exports ??= this.#start());
      const bytes = strings.map((string) => encoder.encode(string));
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
