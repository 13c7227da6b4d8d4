// Publications, and their results.
import { type ReactNode, useState } from 'react';
import type { Mistake } from '../server/errors.js';
import type { Published } from '../server/storage.js';
import { type Api, mistakesOf } from './api.js';

export interface Publication {
  isRunning: boolean;
  result: Published | null;
  error: string | null;
  /** The mistakes for which the site was not published. */
  mistakes: Mistake[];
  publish(revision: string): Promise<void>;
}

const NOTHING = { isRunning: false, result: null, error: null, mistakes: [] };

/** Publishes, and keeps the last result. */
export function usePublication(api: Api): Publication {
  const [state, setState] = useState<Omit<Publication, 'publish'>>(NOTHING);
  async function publish(revision: string): Promise<void> {
    setState({ ...NOTHING, isRunning: true });
    try {
      const result = await api.publish(revision);
      setState({ ...NOTHING, result });
    } catch (reason) {
      setState({ ...NOTHING, error: `Not published. ${(reason as Error).message}`, mistakes: mistakesOf(reason) });
    }
  }
  return { ...state, publish };
}

/** The result of the last publication. */
export function PublicationResult({ isRunning, result, error, mistakes }: Publication): ReactNode {
  return (
    <div aria-live="polite">
      {isRunning && <p className="px-dim">Publishing …</p>}
      {result && (
        <p>
          {result.status} {result.url && <a href={result.url}>{result.url}</a>}
        </p>
      )}
      {error && <p className="px-fault">{error}</p>}
      {mistakes.length > 0 && (
        <ul className="px-list" aria-label="Mistakes of the site">
          {mistakes.map(({ file, line, title, help }, at) => (
            <li key={at}>
              <code>{line === undefined ? file : `${file}:${line}`}</code> <b>{title}</b> {help?.map((text) => <span key={text}>{text} </span>)}
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}
