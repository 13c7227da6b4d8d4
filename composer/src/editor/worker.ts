// The worker that checks the site while a person edits. It gets the address of the author module first, and then files.
import type { Vocabulary } from '../core/index.js';
import { Author, type Report } from './author.js';

/** A message to the worker: the address of the module, or the files of a turn. */
export type WorkerRequest = { moduleUrl: string } | { turn: number; files: Record<string, string> };
/** The answer to a turn, or the vocabulary of conditions as soon as the module is there. */
export type WorkerResponse = { vocabulary: Vocabulary } | { turn: number; report?: Report; error?: string };

let author: Promise<Author> | undefined;

addEventListener('message', ({ data }: MessageEvent<WorkerRequest>) => {
  if ('moduleUrl' in data) {
    author = fetch(data.moduleUrl).then(async (response) => {
      if (!response.ok) throw new Error(`${data.moduleUrl} answered with status ${response.status}.`);
      return new Author(await WebAssembly.compile(await response.arrayBuffer()));
    });
    // A turn tells why the module is not there.
    author.then((ready) => postMessage({ vocabulary: ready.vocabulary() } satisfies WorkerResponse)).catch(() => {});
    return;
  }
  const { turn, files } = data;
  const answer = (response: WorkerResponse) => postMessage(response);
  (author ?? Promise.reject(new Error('The worker has no module.')))
    .then((ready) => answer({ turn, report: ready.lint(files) }))
    .catch((error: Error) => answer({ turn, error: error.message }));
});
