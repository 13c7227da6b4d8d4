// The published versions of the site, and the way back to one of them.
import { type ReactNode, useEffect, useState } from 'react';
import type { Version } from '../server/storage.js';
import type { Api } from './api.js';

const timeOf = (at: string) => new Date(at).toLocaleString('en-GB');

export function Versions({ api, mayPublish }: { api: Api; mayPublish: boolean }): ReactNode {
  const [versions, setVersions] = useState<Version[] | null>(null);
  const [turn, setTurn] = useState(0);
  const [wanted, setWanted] = useState<Version | null>(null);
  const [isRunning, setRunning] = useState(false);
  const [status, setStatus] = useState<string | null>(null);
  const [error, setError] = useState<string | null>(null);
  useEffect(() => {
    let isCurrent = true;
    api.versions().then((found) => isCurrent && setVersions(found), (reason: Error) => isCurrent && setError(reason.message));
    return () => {
      isCurrent = false;
    };
  }, [api, turn]);

  async function rollback({ version }: Version): Promise<void> {
    setRunning(true);
    setError(null);
    try {
      setStatus((await api.rollback(version, versions![0]!.version)).status);
    } catch (reason) {
      setError((reason as Error).message);
    } finally {
      setRunning(false);
      setWanted(null);
      setTurn((last) => last + 1);
    }
  }

  return (
    <section aria-label="Published versions">
      <h2>Published versions</h2>
      <p role="status">{status}</p>
      {error && <p className="px-fault" role="alert">{error}</p>}
      {versions?.length === 0 && <p className="px-dim">Nothing is published yet.</p>}
      <ol className="px-list" aria-label="Versions">
        {(versions ?? []).map((one) => (
          <li key={one.version} className="px-row">
            <span className="px-page">
              <b>{one.at === null ? `Version ${one.version}` : <time dateTime={one.at}>{timeOf(one.at)}</time>}</b> {one.at !== null && <span className="px-dim">version {one.version}</span>}
            </span>
            {one.isServed && <span className="px-state">published</span>}
            {mayPublish && !one.isServed && (
              <button type="button" disabled={isRunning} onClick={() => setWanted(one)}>{`Publish version ${one.version} again …`}</button>
            )}
          </li>
        ))}
      </ol>
      {wanted && (
        <div className="px-dialog" role="dialog" aria-label={`Publish version ${wanted.version} again`}>
          <p>All visitors then see version {wanted.version}. The later versions are taken back. The files of the site stay as they are: the next publication has them again.</p>
          <div className="px-row">
            <button type="button" className="px-danger" disabled={isRunning} onClick={() => void rollback(wanted)}>Take back the later versions</button>
            <button type="button" onClick={() => setWanted(null)}>Cancel</button>
          </div>
        </div>
      )}
    </section>
  );
}
