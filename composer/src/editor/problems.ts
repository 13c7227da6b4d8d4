// The mistakes of the site while a person edits it.
import { useEffect, useRef, useState } from 'react';
import type { Vocabulary } from '../core/index.js';
import type { Report } from './author.js';
import type { WorkerRequest, WorkerResponse } from './worker.js';

/** Time after the last change before the site is checked. */
const QUIET_MS = 200;

export interface Problems {
  report: Report | null;
  /** Why the site cannot be checked here. */
  error: string | null;
  /** The vocabulary of conditions. Null without the module. */
  vocabulary: Vocabulary | null;
}

/** Checks the files some time after each change, in a worker. Only the answer to the last turn counts. */
export function useProblems(createWorker: (() => Worker) | undefined, moduleUrl: string | undefined, files: Record<string, string>): Problems {
  const [problems, setProblems] = useState<Problems>({ report: null, error: null, vocabulary: null });
  const worker = useRef<Worker | null>(null);
  const turn = useRef(0);
  useEffect(() => {
    if (!createWorker || !moduleUrl) return undefined;
    const started = createWorker();
    worker.current = started;
    started.postMessage({ moduleUrl } satisfies WorkerRequest);
    started.addEventListener('message', ({ data }: MessageEvent<WorkerResponse>) => {
      if ('vocabulary' in data) setProblems((last) => ({ ...last, vocabulary: data.vocabulary }));
      else if (data.turn === turn.current) setProblems((last) => ({ ...last, report: data.report ?? null, error: data.error ?? null }));
    });
    return () => {
      started.terminate();
      worker.current = null;
    };
  }, [createWorker, moduleUrl]);
  useEffect(() => {
    const timer = setTimeout(() => {
      turn.current += 1;
      worker.current?.postMessage({ turn: turn.current, files } satisfies WorkerRequest);
    }, QUIET_MS);
    return () => clearTimeout(timer);
  }, [files]);
  return problems;
}
