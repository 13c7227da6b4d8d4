// The worker that checks the site while a person edits. It gets the address of the author module first, and then files.
import { Author, type Report } from './author.js';

/** A message to the worker: the address of the module, or the files of a turn. */
export type WorkerRequest = { moduleUrl: string } | { turn: number; files: Record<string, string> };
export type WorkerResponse = { turn: number; report?: Report; error?: string };

let author: Promise<Author> | undefined;

addEventListener('message', ({ data }: MessageEvent<WorkerRequest>) => {
  if ('moduleUrl' in data) {
    author = fetch(data.moduleUrl).then(async (response) => {
      if (!response.ok) throw new Error(`${data.moduleUrl} answered with status ${response.status}.`);
      return new Author(await WebAssembly.compile(await response.arrayBuffer()));
    });
    author.catch(() => {});
    return;
  }
  const { turn, files } = data;
  const answer = (response: WorkerResponse) => postMessage(response);
  (author ?? Promise.reject(new Error('The worker has no module.')))
    .then((ready) => answer({ turn, report: ready.lint(files) }))
    .catch((error: Error) => answer({ turn, error: error.message }));
});
