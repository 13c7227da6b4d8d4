// The history of the site, and the way back to an earlier state.
import { type ReactNode, useEffect, useState } from 'react';
import type { SiteFile } from '../server/storage.js';
import type { Api, LoadedSite } from './api.js';
import { Versions } from './versions.js';

interface Revision {
  revision: string;
  message: string;
  author: string;
  at: string;
}

interface HistoryProps {
  api: Api;
  site: LoadedSite;
  /** Makes the files of a revision the changes of this editor. Nothing is saved by that. */
  onRestore(files: Record<string, SiteFile>): void;
  onClose(): void;
}

export function History({ api, site: { roles, features }, onRestore, onClose }: HistoryProps): ReactNode {
  const [revisions, setRevisions] = useState<Revision[] | null>(null);
  const [error, setError] = useState<string | null>(null);
  const [isLoading, setLoading] = useState(false);
  const mayEdit = roles.includes('edit');
  // Without a history of saves the published versions are the history.
  const hasSaves = features.includes('history') || !features.includes('versions');
  useEffect(() => {
    let isCurrent = true;
    if (!hasSaves) return undefined;
    api.history().then((found) => isCurrent && setRevisions(found), (reason: Error) => isCurrent && setError(reason.message));
    return () => {
      isCurrent = false;
    };
  }, [api, hasSaves]);
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
      {hasSaves && !error && !revisions && <p role="status">Loading the history …</p>}
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
      {features.includes('versions') && <Versions api={api} mayPublish={roles.includes('publish')} />}
    </main>
  );
}
