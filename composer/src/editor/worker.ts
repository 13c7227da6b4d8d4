// The worker that checks the site while a person edits. It gets the address of the author module first, and then files.
import type { Vocabulary } from '../core/index.js';
import { Author, type Report } from './author.js';

/** A message to the worker: the address of the module, or the files that have changed since the last turn. Each turn has one answer. */
export type WorkerRequest = { moduleUrl: string } | { changed: Record<string, string>; removed: string[] };
/** The answer to a turn, or the vocabulary of conditions as soon as the module is there. */
export type WorkerResponse = { vocabulary: Vocabulary } | { report?: Report; error?: string };

let author: Promise<Author> | undefined;
const files: Record<string, string> = {};

addEventListener('message', ({ data }: MessageEvent<WorkerRequest>) => {
  const answer = (response: WorkerResponse) => postMessage(response);
  if ('moduleUrl' in data) {
    author = fetch(data.moduleUrl).then(async (response) => {
      if (!response.ok) throw new Error(`${data.moduleUrl} answered with status ${response.status}.`);
      return new Author(await WebAssembly.compile(await response.arrayBuffer()));
    });
    // A turn tells why the module is not there.
    author.then((ready) => answer({ vocabulary: ready.vocabulary() })).catch(() => {});
    return;
  }
  Object.assign(files, data.changed);
  for (const file of data.removed) delete files[file];
  (author ?? Promise.reject(new Error('The worker has no module.')))
    .then((ready) => answer({ report: ready.lint(files) }))
    .catch((error: Error) => answer({ error: error.message }));
});
