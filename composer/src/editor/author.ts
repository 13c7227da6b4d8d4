// The author module in the browser: it checks the files of a site as `parallax lint` does, and decides for invented visitors of it, from
// memory.
import type { Vocabulary } from '../core/conditions.js';

interface ModuleExports {
  memory: WebAssembly.Memory;
  start(seed: number): void;
  set_now_ms(nowMs: number): void;
  input(length: number): number;
  last_panic(): number;
  run(): number;
  explain(): number;
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

/** Checks files, and explains decisions, with an instance of the module. */
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
    return JSON.parse(this.#schema('conditions'));
  }

  /** Returns the limits of experiments of the program. */
  experimentLimits(): ExperimentLimits {
    const { properties } = JSON.parse(this.#schema('route')).$defs.Experiment;
    const ramp = properties.coverage.anyOf.find(({ type }: { type: string }) => type === 'array');
    return { rampSteps: ramp.maxItems, guardrails: properties.guardrails.maxItems };
  }

  /** Returns all mistakes of the files. Throws if the module stops; the next call begins with a new instance. */
  lint(files: Record<string, string>): Report {
    const output = this.#lint(['--format', 'json'], [ROOT], new Map(filesIn(ROOT, files)), this.#facts);
    const { errors, warnings } = JSON.parse(output || '{}');
    return { errors: errors ?? [], warnings: warnings ?? [] };
  }

  /** Returns what changes if the files replace those of `base`. */
  compare(base: Record<string, string>, files: Record<string, string>): Comparison {
    const output = this.#lint(['--against', BASE], [ROOT, BASE], new Map([...filesIn(ROOT, files), ...filesIn(BASE, base)]), new Map());
    // The first line names the base, and the last one counts the routes and the mistakes.
    return output === '' ? null : output.trim().split('\n').slice(1, -1);
  }

  /** Returns the response for the page of a question about an invented visitor, with the reasons. Throws if the site or the question has a mistake. */
  explain(files: Record<string, string>, question: object): Record<string, unknown> {
    return JSON.parse(decoder.decode(this.#call('explain', encoded([JSON.stringify(question), ...Object.entries(files).flat()]))));
  }

  /**
   * Returns the standard output of `parallax lint` for files with their paths. It is empty if the files have mistakes and no format is given.
   * `facts` is what the module has read before.
   */
  #lint(words: string[], roots: string[], files: Map<string, string>, facts: Map<string, Fact>): string {
    const directories = listings(roots, files);
    const read = (path: string): void => {
      const source = directories.get(path) ?? files.get(path);
      const known = facts.get(path);
      if (known && known.source === source) return;
      facts.set(path, { source, strings: factOf(path, directories.has(path), source) });
    };
    [...facts.keys()].forEach(read);
    const command = encoded(['lint', ROOT, ...words].flatMap((word) => ['argument', word]));
    for (let run = 0; run < RUNS_MAX; run += 1) {
      const records = this.#run([...command, ...[...facts.values()].flatMap(({ strings }) => strings)]);
      const needs = records.filter(([tag]) => tag === 'need').map(([, path]) => path!);
      if (needs.length === 0) {
        // Otherwise the facts would grow with each rename.
        for (const path of facts.keys()) if (!directories.has(path) && !files.has(path)) facts.delete(path);
        return records.find(([tag]) => tag === 'output')?.[1] ?? '';
      }
      needs.forEach(read);
    }
    throw new Error('The module of the compiler reads the site again and again.');
  }

  #schema(name: string): string {
    return this.#run(encoded(['argument', 'schema', 'argument', name])).find(([tag]) => tag === 'output')![1]!;
  }

  #run(bytes: Uint8Array[]): string[][] {
    return readRecords(this.#call('run', bytes));
  }

  /** Calls a function of the module. Throws its error, or that the module has stopped. */
  #call(name: 'run' | 'explain', bytes: Uint8Array[]): Uint8Array {
    let output: { isOk: boolean; content: Uint8Array };
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
      output = this.#read(exports[name]() >>> 0);
    } catch (error) {
      const text = this.#panic() || String(error);
      this.#exports = null;
      throw new Error(`The compiler stopped: ${text}`, { cause: error });
    }
    if (!output.isOk) throw new Error(decoder.decode(output.content));
    return output.content;
  }

  #start(): ModuleExports {
    const exports = new WebAssembly.Instance(this.#module, {}).exports as unknown as ModuleExports;
    exports.start(Math.random() * 2 ** 53);
    return exports;
  }

  #read(at: number): { isOk: boolean; content: Uint8Array } {
    const view = new DataView(this.#exports!.memory.buffer, at, HEAD_BYTES);
    const content = new Uint8Array(this.#exports!.memory.buffer, at + HEAD_BYTES, view.getUint32(4, true)).slice();
    return { isOk: view.getUint32(0, true) === 0, content };
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
