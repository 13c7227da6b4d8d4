// The steps after a save: publish the site, and show a page of it to a colleague.
import { type FormEvent, type ReactNode, useState } from 'react';
import type { Api, LoadedSite } from './api.js';
import { type Publication, PublicationResult } from './publication.js';
import { type Proposal, canBeShown } from './proposal.js';
import { type PageEntry, pagesOf } from './site.js';

/** The days of a link: without a choice, and at most. */
const DAYS_DEFAULT = 7;
const DAYS_MAX = 30;

interface AfterSaveProps {
  api: Api;
  site: LoadedSite;
  /** The last save, if it is a proposal. */
  proposal: Proposal | null;
  publication: Publication;
}

export function AfterSave({ api, site, proposal, publication }: AfterSaveProps): ReactNode {
  const { roles, features } = site;
  const [isLinking, setLinking] = useState(false);
  const mayPublish = roles.includes('publish') && features.includes('publish');
  const mayLink = roles.includes('edit') && features.includes('preview');
  const revision = proposal?.revision ?? site.revision;
  const pages = proposal?.pages.length ? proposal.pages : pagesOf(site, {}).filter(canBeShown);
  return (
    <section aria-label="Saved site" className="px-pages">
      <div className="px-row">
        {mayPublish && <button type="button" disabled={publication.isRunning} onClick={() => void publication.publish(revision)}>Publish</button>}
        {mayLink && <button type="button" aria-expanded={isLinking} onClick={() => setLinking(!isLinking)}>Preview link …</button>}
      </div>
      <PublicationResult {...publication} />
      {isLinking && <PreviewLink key={revision} {...{ api, revision, pages }} />}
    </section>
  );
}

function PreviewLink({ api, revision, pages }: { api: Api; revision: string; pages: PageEntry[] }): ReactNode {
  const [link, setLink] = useState<{ url: string; expires: string } | null>(null);
  const [error, setError] = useState<string | null>(null);
  async function make(event: FormEvent<HTMLFormElement>): Promise<void> {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    setLink(null);
    setError(null);
    try {
      const { url, expires } = await api.linkPreview(revision, String(form.get('page')), Number(form.get('days')));
      setLink({ url: new URL(url, location.href).href, expires });
    } catch (reason) {
      setError((reason as Error).message);
    }
  }
  return (
    <div className="px-dialog">
      <p>Everyone who has the link sees this one page as it is saved now, without signing in, until the link expires.</p>
      <form className="px-row" onSubmit={(event) => void make(event)}>
        <label className="px-field">
          <span>Page</span>
          <select name="page">
            {pages.map(({ file, path, title }) => <option key={file} value={file}>{title ? `${path} (${title})` : path}</option>)}
          </select>
        </label>
        <label className="px-field">
          <span>Days until it expires</span>
          <input name="days" type="number" required min={1} max={DAYS_MAX} defaultValue={DAYS_DEFAULT} />
        </label>
        <button type="submit" disabled={pages.length === 0}>Make the link</button>
      </form>
      {error && <p className="px-fault" role="alert">{error}</p>}
      {link && (
        <div className="px-row">
          <label className="px-field px-wide">
            <span>{`Link, valid until ${new Date(link.expires).toLocaleString('en-GB')}`}</span>
            <input readOnly value={link.url} onFocus={(event) => event.currentTarget.select()} />
          </label>
        </div>
      )}
    </div>
  );
}
