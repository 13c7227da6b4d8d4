// The answers of the author module in a worker while a person edits the site: mistakes, changes and decisions.
import { useEffect, useMemo, useRef, useState } from 'react';
import type { Comparison, Report } from './author.js';
import { AuthorWorker, type ProgramFacts } from './author-worker.js';

/**
 * Time after the last change before the site is checked. A check of 300 pages needs about 250 ms, and a mistake is to be shown within
 * 500 ms. A shorter time would check between the keys of most people.
 */
const QUIET_MS = 120;

export interface Problems {
  report: Report | null;
  /** Why the site cannot be checked here. */
  error: string | null;
  /** The vocabulary of conditions and the limits of experiments. Null without the module. */
  vocabulary: ProgramFacts['vocabulary'] | null;
  experimentLimits: ProgramFacts['experimentLimits'] | null;
  /** Compares two versions of the files. Null if they cannot be compared here. */
  compare: Compare | null;
  /** Answers questions about invented visitors of the files as they are edited. Null without the module. */
  explain: ExplainDraft | null;
}

export type Compare = (base: Record<string, string>, files: Record<string, string>) => Promise<Comparison>;
export type ExplainDraft = (question: Record<string, unknown>) => Promise<Record<string, unknown>>;

/** Checks the files some time after each change, one check at a time. */
export function useProblems(createWorker: (() => Worker) | undefined, moduleUrl: string | undefined, files: Record<string, string>): Problems {
  const [checked, setChecked] = useState<{ report: Report | null; error: string | null }>({ report: null, error: null });
  const [facts, setFacts] = useState<ProgramFacts | null>(null);
  const [worker, setWorker] = useState<AuthorWorker | null>(null);
  const latest = useRef(files);
  latest.current = files;
  useEffect(() => {
    if (!createWorker || !moduleUrl) return undefined;
    const started = new AuthorWorker(createWorker());
    setWorker(started);
    // The first check says why the module is not there.
    started.open(moduleUrl).then(setFacts, () => {});
    return () => started.terminate();
  }, [createWorker, moduleUrl]);
  const check = useMemo(() => worker && checkerOf(worker, setChecked), [worker]);
  useEffect(() => {
    const timer = setTimeout(() => check?.(files), QUIET_MS);
    return () => clearTimeout(timer);
  }, [check, files]);
  const questions = useMemo(() => ({
    compare: worker && ((base, present) => worker.compare(base, present)) as Compare | null,
    explain: worker && ((question) => worker.explain(latest.current, question)) as ExplainDraft | null,
  }), [worker]);
  return { ...checked, vocabulary: facts?.vocabulary ?? null, experimentLimits: facts?.experimentLimits ?? null, ...questions };
}

/** Returns a function that checks files. While a check runs, the newest files wait, and only the report of the newest ones counts. */
function checkerOf(worker: AuthorWorker, onChecked: (checked: { report: Report | null; error: string | null }) => void): (files: Record<string, string>) => void {
  let [isBusy, waiting] = [false, null as Record<string, string> | null];
  const check = async (files: Record<string, string>): Promise<void> => {
    if (isBusy) {
      waiting = files;
      return;
    }
    isBusy = true;
    const checked = await worker.lint(files).then((report) => ({ report, error: null }), (error: Error) => ({ report: null, error: error.message }));
    isBusy = false;
    const next = waiting;
    waiting = null;
    if (next) return check(next);
    onChecked(checked);
  };
  return (files) => void check(files);
}
