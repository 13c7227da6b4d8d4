// The mistakes of the site while a person edits it.
import { useEffect, useRef, useState } from 'react';
import type { Vocabulary } from '../core/index.js';
import type { Report } from './author.js';
import type { WorkerRequest, WorkerResponse } from './worker.js';

/**
 * Time after the last change before the site is checked. A check of 300 pages needs about 250 ms, and a mistake is to be shown within
 * 500 ms. A shorter time would check between the keys of most people.
 */
const QUIET_MS = 120;

export interface Problems {
  report: Report | null;
  /** Why the site cannot be checked here. */
  error: string | null;
  /** The vocabulary of conditions. Null without the module. */
  vocabulary: Vocabulary | null;
}

/** Checks the files some time after each change, in a worker. The worker gets the changed texts only, and one turn at a time. */
export function useProblems(createWorker: (() => Worker) | undefined, moduleUrl: string | undefined, files: Record<string, string>): Problems {
  const [problems, setProblems] = useState<Problems>({ report: null, error: null, vocabulary: null });
  const sender = useRef<Sender | null>(null);
  useEffect(() => {
    if (!createWorker || !moduleUrl) return undefined;
    const worker = createWorker();
    const started = new Sender(worker);
    sender.current = started;
    worker.postMessage({ moduleUrl } satisfies WorkerRequest);
    worker.addEventListener('message', ({ data }: MessageEvent<WorkerResponse>) => {
      if ('vocabulary' in data) return setProblems((last) => ({ ...last, vocabulary: data.vocabulary }));
      const isLast = started.answered();
      if (isLast) setProblems((last) => ({ ...last, report: data.report ?? null, error: data.error ?? null }));
    });
    return () => {
      worker.terminate();
      sender.current = null;
    };
  }, [createWorker, moduleUrl]);
  useEffect(() => {
    const timer = setTimeout(() => sender.current?.check(files), QUIET_MS);
    return () => clearTimeout(timer);
  }, [files]);
  return problems;
}

/** Sends files to a worker: those that differ from what it has. While it checks, the newest files wait. */
class Sender {
  readonly #worker: Worker;
  #sent: Record<string, string> = {};
  #waiting: Record<string, string> | null = null;
  #isBusy = false;

  constructor(worker: Worker) {
    this.#worker = worker;
  }

  check(files: Record<string, string>): void {
    if (this.#isBusy) this.#waiting = files;
    else this.#send(files);
  }

  /** Notes the answer to the last turn. Returns whether no newer files wait, which are sent then. */
  answered(): boolean {
    this.#isBusy = false;
    if (!this.#waiting) return true;
    this.#send(this.#waiting);
    return false;
  }

  #send(files: Record<string, string>): void {
    const changed = Object.entries(files).filter(([file, text]) => !Object.hasOwn(this.#sent, file) || this.#sent[file] !== text);
    const removed = Object.keys(this.#sent).filter((file) => !Object.hasOwn(files, file));
    this.#worker.postMessage({ changed: Object.fromEntries(changed), removed } satisfies WorkerRequest);
    this.#sent = files;
    this.#waiting = null;
    this.#isBusy = true;
  }
}
