// The changes of a save for visitors, in the words of the program.
import { type ReactNode, useEffect, useState } from 'react';
import { differences, experimentsOf } from '../core/experiments.js';
import type { Json } from '../core/json.js';
import type { Comparison } from './author.js';
import type { Compare } from './problems.js';
import { parsed } from './site.js';

/** Returns the values of the files that are JSON. */
export function valuesOf(files: Record<string, string>): Record<string, Json> {
  const entries = Object.entries(files).map(([file, text]) => [file, parsed(text)] as const);
  return Object.fromEntries(entries.filter((entry): entry is [string, Json] => entry[1] !== undefined));
}

function changedExperiments(saved: Record<string, string>, files: Record<string, string>): string[] {
  return differences(experimentsOf(valuesOf(saved)), experimentsOf(valuesOf(files))).map(({ key, text }) => `${key}: ${text}`);
}

interface ConsequencesProps {
  /** The files as they are saved, and as they are now. */
  saved: Record<string, string>;
  files: Record<string, string>;
  /** Compares them as the program does. Null without the author module: then only the changes of experiments are known. */
  compare: Compare | null;
}

/** The changes of experiments, zones and audiences between two versions. */
export function Consequences({ saved, files, compare }: ConsequencesProps): ReactNode {
  const [comparison, setComparison] = useState<Comparison | undefined>(undefined);
  const [error, setError] = useState<string | null>(null);
  useEffect(() => {
    let isCurrent = true;
    setError(null);
    setComparison(undefined);
    const compared = compare ? compare(saved, files) : new Promise<Comparison>((resolve) => resolve(changedExperiments(saved, files)));
    compared.then((found) => isCurrent && setComparison(found), (reason: Error) => isCurrent && setError(reason.message));
    return () => {
      isCurrent = false;
    };
  }, [saved, files, compare]);
  return (
    <section aria-label="What changes for visitors">
      <h2>What changes for visitors</h2>
      {error && <p className="px-fault" role="alert">{error}</p>}
      {!error && comparison === undefined && <p role="status" className="px-dim">Comparing with the saved site …</p>}
      {comparison === null && <p className="px-fault">The site has mistakes, now or as it is saved, so the two cannot be compared.</p>}
      <ul className="px-list">{comparison?.map((line) => <li key={line}>{line}</li>)}</ul>
    </section>
  );
}
