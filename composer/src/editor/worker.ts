// The worker that checks the site while a person edits. It gets the address of the author module first, and then files.
import type { Vocabulary } from '../core/index.js';
import { Author, type Comparison, type ExperimentLimits, type Report } from './author.js';

/** A message to the worker: the address of the module, the files of a turn, or two versions to compare. */
export type WorkerRequest =
  | { moduleUrl: string }
  | { turn: number; files: Record<string, string> }
  | { comparison: number; base: Record<string, string>; files: Record<string, string> };
/** The answer to a turn or a comparison, or the vocabulary and the limits of the program as soon as the module is there. */
export type WorkerResponse =
  | { vocabulary: Vocabulary; experimentLimits: ExperimentLimits }
  | { turn: number; report?: Report; error?: string }
  | { comparison: number; result?: Comparison; error?: string };

let author: Promise<Author> | undefined;

addEventListener('message', ({ data }: MessageEvent<WorkerRequest>) => {
  if ('moduleUrl' in data) {
    author = fetch(data.moduleUrl).then(async (response) => {
      if (!response.ok) throw new Error(`${data.moduleUrl} answered with status ${response.status}.`);
      return new Author(await WebAssembly.compile(await response.arrayBuffer()));
    });
    // A turn tells why the module is not there.
    author.then((ready) => postMessage({ vocabulary: ready.vocabulary(), experimentLimits: ready.experimentLimits() } satisfies WorkerResponse)).catch(() => {});
    return;
  }
  const answer = (response: WorkerResponse) => postMessage(response);
  const ready = author ?? Promise.reject(new Error('The worker has no module.'));
  if ('comparison' in data) {
    const { comparison, base, files } = data;
    ready.then((module) => answer({ comparison, result: module.compare(base, files) })).catch((error: Error) => answer({ comparison, error: error.message }));
    return;
  }
  const { turn, files } = data;
  ready.then((module) => answer({ turn, report: module.lint(files) })).catch((error: Error) => answer({ turn, error: error.message }));
});
