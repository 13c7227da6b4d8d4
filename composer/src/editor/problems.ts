// The mistakes of the site while a person edits it.
import { useCallback, useEffect, useRef, useState } from 'react';
import type { Vocabulary } from '../core/index.js';
import type { Comparison, ExperimentLimits, Report } from './author.js';
import type { WorkerRequest, WorkerResponse } from './worker.js';

/** Time after the last change before the site is checked. */
const QUIET_MS = 200;

export interface Problems {
  report: Report | null;
  /** Why the site cannot be checked here. */
  error: string | null;
  /** The vocabulary of conditions. Null without the module. */
  vocabulary: Vocabulary | null;
  /** The limits of experiments. Null without the module. */
  experimentLimits: ExperimentLimits | null;
  /** Compares two versions of the files. Null if they cannot be compared here. */
  compare: Compare | null;
}

export type Compare = (base: Record<string, string>, files: Record<string, string>) => Promise<Comparison>;

interface Waiting {
  resolve(result: Comparison): void;
  reject(reason: Error): void;
}

/** Checks the files some time after each change, in a worker. Only the answer to the last turn counts. */
export function useProblems(createWorker: (() => Worker) | undefined, moduleUrl: string | undefined, files: Record<string, string>): Problems {
  const [problems, setProblems] = useState<Omit<Problems, 'compare'>>({ report: null, error: null, vocabulary: null, experimentLimits: null });
  const worker = useRef<Worker | null>(null);
  const turn = useRef(0);
  const count = useRef(0);
  const comparisons = useRef(new Map<number, Waiting>());
  useEffect(() => {
    if (!createWorker || !moduleUrl) return undefined;
    const started = createWorker();
    worker.current = started;
    started.postMessage({ moduleUrl } satisfies WorkerRequest);
    started.addEventListener('message', ({ data }: MessageEvent<WorkerResponse>) => {
      if ('vocabulary' in data) setProblems((last) => ({ ...last, ...data }));
      else if ('comparison' in data) {
        const waiting = comparisons.current.get(data.comparison);
        comparisons.current.delete(data.comparison);
        if (data.result !== undefined) waiting?.resolve(data.result);
        else waiting?.reject(new Error(data.error));
      }
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
  const compare = useCallback<Compare>((base, present) => {
    const comparison = (count.current += 1);
    return new Promise((resolve, reject) => {
      comparisons.current.set(comparison, { resolve, reject });
      worker.current?.postMessage({ comparison, base, files: present } satisfies WorkerRequest);
    });
  }, []);
  return { ...problems, compare: createWorker && moduleUrl ? compare : null };
}
