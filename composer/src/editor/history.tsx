// The history of the site, and the way back to an earlier state.
import { type ReactNode, useEffect, useState } from 'react';
import type { SiteFile } from '../server/storage.js';
import type { Api } from './api.js';

interface Revision {
  revision: string;
  message: string;
  author: string;
  at: string;
}

interface HistoryProps {
  api: Api;
  mayEdit: boolean;
  /** Makes the files of a revision the changes of this editor. Nothing is saved by that. */
  onRestore(files: Record<string, SiteFile>): void;
  onClose(): void;
}

export function History({ api, mayEdit, onRestore, onClose }: HistoryProps): ReactNode {
  const [revisions, setRevisions] = useState<Revision[] | null>(null);
  const [error, setError] = useState<string | null>(null);
  const [isLoading, setLoading] = useState(false);
  useEffect(() => {
    let isCurrent = true;
    api.history().then((found) => isCurrent && setRevisions(found), (reason: Error) => isCurrent && setError(reason.message));
    return () => {
      isCurrent = false;
    };
  }, [api]);
  const restore = (revision: string) => {
    setLoading(true);
    api.filesAt(revision).then(onRestore, (reason: Error) => {
      setError(reason.message);
      setLoading(false);
    });
  };
  return (
    <main className="px-pages">
      <h1>History</h1>
      <button type="button" onClick={onClose}>Back</button>
      {error && <p className="px-fault" role="alert">{error}</p>}
      {!error && !revisions && <p role="status">Loading the history …</p>}
      <ol className="px-list" aria-label="Saves">
        {(revisions ?? []).map(({ revision, message, author, at }, index) => (
          <li key={revision} className="px-row">
            <span className="px-page">
              <b>{message}</b> <span className="px-dim">{author}, <time dateTime={at}>{new Date(at).toLocaleString('en-GB')}</time></span>
            </span>
            {mayEdit && index > 0 && (
              <button type="button" disabled={isLoading} aria-label={`Go back to: ${message}`} onClick={() => restore(revision)}>
                Go back to this …
              </button>
            )}
          </li>
        ))}
      </ol>
    </main>
  );
}
