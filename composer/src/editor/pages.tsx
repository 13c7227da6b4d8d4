// The list of the pages.
import { type ReactNode, useState } from 'react';
import type { PageEntry } from './site.js';

const STATES: Record<PageEntry['state'], string> = { same: '', changed: 'changed', new: 'new', removed: 'removed', broken: 'not readable' };

interface PagesProps {
  pages: PageEntry[];
  /** Mistakes by file. */
  mistakes: Map<string, number>;
  mayEdit: boolean;
  onOpen(file: string): void;
  onNew(path: string, from: string | null): string | null;
  onRemove(file: string, redirectTo: string | null): void;
}

export function Pages({ pages, mistakes, mayEdit, onOpen, onNew, onRemove }: PagesProps): ReactNode {
  const [search, setSearch] = useState('');
  const [removing, setRemoving] = useState<PageEntry | null>(null);
  const wanted = search.trim().toLowerCase();
  const shown = pages.filter(({ path, title }) => `${path} ${title}`.toLowerCase().includes(wanted));
  return (
    <main className="px-pages">
      <h1>Pages</h1>
      <label className="px-field">
        <span>Search</span>
        <input type="search" value={search} onChange={(event) => setSearch(event.currentTarget.value)} />
      </label>
      {mayEdit && <NewPage label="Path of a new page" button="New page" onPath={(path) => onNew(path, null)} />}
      <ul className="px-list" aria-label="Pages">
        {shown.map((page) => (
          <li key={page.file} className="px-row">
            <button type="button" className="px-page" disabled={page.isRedirect || page.state === 'removed' || page.state === 'broken'} onClick={() => onOpen(page.file)}>
              <b>{page.path}</b> {page.title || (page.isRedirect ? 'redirect' : '')}
            </button>
            {STATES[page.state] && <span className="px-state">{STATES[page.state]}</span>}
            {(mistakes.get(page.file) ?? 0) > 0 && <span className="px-state px-fault">{mistakes.get(page.file)} mistakes</span>}
            {mayEdit && !page.isRedirect && page.state !== 'removed' && page.state !== 'broken' && (
              <>
                <NewPage label={`Path of a copy of ${page.path}`} button="Copy" onPath={(path) => onNew(path, page.file)} isQuiet />
                <button type="button" onClick={() => setRemoving(page)} aria-label={`Remove ${page.path}`}>Remove …</button>
              </>
            )}
          </li>
        ))}
      </ul>
      {shown.length === 0 && <p className="px-dim">No page has this text in its path or title.</p>}
      {removing && <Remove page={removing} onClose={() => setRemoving(null)} onRemove={(to) => (onRemove(removing.file, to), setRemoving(null))} />}
    </main>
  );
}

/** Asks for the path of a page. `onPath` returns the reason why the path cannot be used. */
function NewPage({ label, button, onPath, isQuiet }: { label: string; button: string; onPath(path: string): string | null; isQuiet?: boolean }): ReactNode {
  const [isOpen, setOpen] = useState(!isQuiet);
  const [path, setPath] = useState('');
  const [fault, setFault] = useState<string | null>(null);
  if (!isOpen) return <button type="button" onClick={() => setOpen(true)} aria-label={label}>{button} …</button>;
  return (
    <form
      className="px-row"
      onSubmit={(event) => {
        event.preventDefault();
        const reason = onPath(path.trim());
        setFault(reason);
        if (reason === null) setPath('');
        if (reason === null && isQuiet) setOpen(false);
      }}
    >
      <label className="px-field">
        <span>{label}</span>
        <input value={path} required placeholder="/summer" onChange={(event) => setPath(event.currentTarget.value)} />
      </label>
      <button type="submit">{button}</button>
      {fault && <p className="px-fault" role="alert">{fault}</p>}
    </form>
  );
}

/** Asks where the visitors of a removed page go. */
function Remove({ page, onClose, onRemove }: { page: PageEntry; onClose(): void; onRemove(to: string | null): void }): ReactNode {
  const [to, setTo] = useState('/');
  return (
    <div className="px-dialog" role="dialog" aria-label={`Remove ${page.path}`}>
      <p>Links and bookmarks still lead to <b>{page.path}</b>. A redirect takes their visitors to another page.</p>
      <label className="px-field">
        <span>Redirect to</span>
        <input value={to} onChange={(event) => setTo(event.currentTarget.value)} />
      </label>
      <div className="px-row">
        <button type="button" className="px-danger" disabled={!to.startsWith('/')} onClick={() => onRemove(to)}>Remove and redirect</button>
        <button type="button" onClick={() => onRemove(null)}>Remove without a redirect</button>
        <button type="button" onClick={onClose}>Cancel</button>
      </div>
    </div>
  );
}
