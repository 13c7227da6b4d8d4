// The side of the page of the worker with the author module.
import type { Vocabulary } from '../core/conditions.js';
import type { Comparison, ExperimentLimits, Report } from './author.js';
import type { FileChanges, Work, WorkerRequest, WorkerResponse } from './worker.js';

type Files = Record<string, string>;

/** What the program can do, by its own words. */
export interface ProgramFacts {
  vocabulary: Vocabulary;
  experimentLimits: ExperimentLimits;
}

interface Waiting {
  resolve(result: never): void;
  reject(reason: Error): void;
}

/** Sends work to a worker. Files are sent as those that differ from what it has. */
export class AuthorWorker {
  readonly #worker: Worker;
  readonly #waiting = new Map<number, Waiting>();
  #count = 0;
  #sent: Files = {};

  constructor(worker: Worker) {
    this.#worker = worker;
    worker.addEventListener('message', ({ data: { id, result, error } }: MessageEvent<WorkerResponse>) => {
      const { resolve, reject } = this.#waiting.get(id)!;
      this.#waiting.delete(id);
      if (error === undefined) resolve(result as never);
      else reject(new Error(error));
    });
  }

  open(moduleUrl: string): Promise<ProgramFacts> {
    return this.#ask({ kind: 'open', moduleUrl });
  }

  lint(files: Files): Promise<Report> {
    return this.#ask({ kind: 'lint', changes: this.#changesTo(files) });
  }

  /** Answers a question about an invented visitor of the files. */
  explain(files: Files, question: object): Promise<Record<string, unknown>> {
    return this.#ask({ kind: 'explain', changes: this.#changesTo(files), question });
  }

  compare(base: Files, files: Files): Promise<Comparison> {
    return this.#ask({ kind: 'compare', base, files });
  }

  terminate(): void {
    this.#worker.terminate();
  }

  #ask<Result>(work: Work): Promise<Result> {
    const id = (this.#count += 1);
    return new Promise<Result>((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      this.#worker.postMessage({ id, work } satisfies WorkerRequest);
    });
  }

  #changesTo(files: Files): FileChanges {
    const changed = Object.entries(files).filter(([file, text]) => !Object.hasOwn(this.#sent, file) || this.#sent[file] !== text);
    const removed = Object.keys(this.#sent).filter((file) => !Object.hasOwn(files, file));
    this.#sent = files;
    return { changed: Object.fromEntries(changed), removed };
  }
}
