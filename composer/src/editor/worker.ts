// The worker that checks the site while a person edits, compares versions, and decides for invented visitors.
import { Author } from './author.js';

/** The texts of files that have changed since the last message with changes, and the files that are gone. */
export interface FileChanges {
  changed: Record<string, string>;
  removed: string[];
}
/** `open` gets the address of the author module, and answers the vocabulary and the limits of the program. */
export type Work =
  | { kind: 'open'; moduleUrl: string }
  | { kind: 'lint'; changes: FileChanges }
  | { kind: 'explain'; changes: FileChanges; question: object }
  | { kind: 'compare'; base: Record<string, string>; files: Record<string, string> };

/** A message to the worker. Each has one answer. */
export interface WorkerRequest {
  id: number;
  work: Work;
}
export interface WorkerResponse {
  id: number;
  result?: unknown;
  error?: string;
}

let author: Promise<Author> = Promise.reject(new Error('The worker has no module.'));
author.catch(() => {});
const files: Record<string, string> = {};

async function open(moduleUrl: string): Promise<Author> {
  const response = await fetch(moduleUrl);
  if (!response.ok) throw new Error(`${moduleUrl} answered with status ${response.status}.`);
  return new Author(await WebAssembly.compile(await response.arrayBuffer()));
}

/** Notes the changes at once, because the next message builds on them. Returns what is to be done with the module. */
function begin(work: Work): (module: Author) => unknown {
  if (work.kind === 'open') {
    author = open(work.moduleUrl);
    return (module) => ({ vocabulary: module.vocabulary(), experimentLimits: module.experimentLimits() });
  }
  if (work.kind === 'compare') return (module) => module.compare(work.base, work.files);
  Object.assign(files, work.changes.changed);
  for (const file of work.changes.removed) delete files[file];
  return (module) => (work.kind === 'lint' ? module.lint(files) : module.explain(files, work.question));
}

addEventListener('message', ({ data: { id, work } }: MessageEvent<WorkerRequest>) => {
  const run = begin(work);
  author
    .then((module) => postMessage({ id, result: run(module) } satisfies WorkerResponse))
    .catch((error: Error) => postMessage({ id, error: error.message } satisfies WorkerResponse));
});
