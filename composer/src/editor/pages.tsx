// The list of the pages.
import { type KeyboardEvent, type ReactNode, useEffect, useRef, useState } from 'react';
import type { Diagnostic } from './author.js';
import { OtherProblems } from './problem-list.js';
import type { PageEntry } from './site.js';

const STATES: Record<PageEntry['state'], string> = { same: '', changed: 'changed', new: 'new', removed: 'removed', broken: 'not readable' };

const canOpen = ({ isRedirect, state }: PageEntry) => !isRedirect && state !== 'removed' && state !== 'broken';

interface PagesProps {
  pages: PageEntry[];
  problems: Diagnostic[];
  mayEdit: boolean;
  onOpen(file: string): void;
  /** Each returns the reason why the path cannot be used, or null. */
  onNew(path: string, from: string | null): string | null;
  onRename(file: string, path: string, redirects: boolean): string | null;
  onRemove(file: string, redirectTo: string | null): void;
  /** Returns the number of other pages that mention the path of a page. */
  mentions(page: PageEntry): number;
}

export function Pages({ pages, problems, mayEdit, onOpen, onNew, onRename, onRemove, mentions }: PagesProps): ReactNode {
  const [search, setSearch] = useState('');
  const [dialog, setDialog] = useState<{ name: 'rename' | 'remove'; file: string } | null>(null);
  const wanted = search.trim().toLowerCase();
  const shown = pages.filter(({ path, title }) => `${path} ${title}`.toLowerCase().includes(wanted));
  const openable = new Set(pages.filter(canOpen).map(({ file }) => file));
  const counts = new Map<string, number>();
  for (const { file } of problems) counts.set(file, (counts.get(file) ?? 0) + 1);
  /** The file of the old path is a redirect then, or gone: the focus goes to the page at its new path. */
  const rename = (file: string, path: string, redirects: boolean): string | null => {
    const reason = onRename(file, path, redirects);
    if (reason !== null) return reason;
    setDialog(null);
    requestAnimationFrame(() => document.querySelector<HTMLElement>(`.px-page[data-path="${CSS.escape(path)}"]`)?.focus());
    return null;
  };
  return (
    <main className="px-pages">
      <h1>Pages</h1>
      <label className="px-field">
        <span>Search</span>
        <input type="search" value={search} onChange={(event) => setSearch(event.currentTarget.value)} />
      </label>
      {mayEdit && <NewPage label="Path of a new page" button="New page" onPath={(path) => onNew(path, null)} />}
      <ul className="px-list" aria-label="Pages">
        {shown.map((page) => {
          const count = counts.get(page.file) ?? 0;
          const isOpenable = openable.has(page.file);
          const close = () => setDialog(null);
          return (
            <li key={page.file} className="px-row">
              <button type="button" className="px-page" data-file={page.file} data-path={page.path} disabled={!isOpenable} onClick={() => onOpen(page.file)}>
                <b>{page.path}</b> {page.title || (page.isRedirect ? 'redirect' : '')}
              </button>
              {STATES[page.state] && <span className="px-state">{STATES[page.state]}</span>}
              {count > 0 && isOpenable && <button type="button" className="px-danger" aria-label={`${mistakes(count)} in ${page.path}`} onClick={() => onOpen(page.file)}>{mistakes(count)}</button>}
              {count > 0 && !isOpenable && <span className="px-state px-fault">{mistakes(count)}</span>}
              {mayEdit && isOpenable && (
                <>
                  <button type="button" onClick={() => setDialog({ name: 'rename', file: page.file })} aria-label={`Rename ${page.path}`}>Rename …</button>
                  <NewPage label={`Path of a copy of ${page.path}`} button="Copy" onPath={(path) => onNew(path, page.file)} isQuiet />
                  <button type="button" onClick={() => setDialog({ name: 'remove', file: page.file })} aria-label={`Remove ${page.path}`}>Remove …</button>
                </>
              )}
              {dialog?.file === page.file && dialog.name === 'rename' && <Rename page={page} mentions={mentions(page)} onClose={close} onRename={(path, redirects) => rename(page.file, path, redirects)} />}
              {dialog?.file === page.file && dialog.name === 'remove' && <Remove page={page} onClose={close} onRemove={(to) => (onRemove(page.file, to), close())} />}
            </li>
          );
        })}
      </ul>
      {shown.length === 0 && <p className="px-dim">No page has this text in its path or title.</p>}
      <OtherProblems problems={problems.filter(({ file }) => !openable.has(file))} />
    </main>
  );
}

const mistakes = (count: number) => (count === 1 ? '1 mistake' : `${count} mistakes`);

/** A dialog in its row. It takes the focus, and gives it back. Escape closes it. */
function Dialog({ label, onClose, children }: { label: string; onClose(): void; children: ReactNode }): ReactNode {
  const element = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    element.current?.querySelector('input')?.focus();
    return () => before?.focus();
  }, []);
  return (
    <div ref={element} className="px-dialog px-wide" role="dialog" aria-label={label} onKeyDown={(event: KeyboardEvent) => event.key === 'Escape' && onClose()}>
      {children}
    </div>
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

/** Asks for the other path of a page. */
function Rename({ page, mentions, onClose, onRename }: { page: PageEntry; mentions: number; onClose(): void; onRename(path: string, redirects: boolean): string | null }): ReactNode {
  const [path, setPath] = useState(page.path);
  const [redirects, setRedirects] = useState(true);
  const [fault, setFault] = useState<string | null>(null);
  return (
    <Dialog label={`Rename ${page.path}`} onClose={onClose}>
      <form
        className="px-column"
        onSubmit={(event) => {
          event.preventDefault();
          setFault(onRename(path.trim(), redirects));
        }}
      >
        <label className="px-field">
          <span>Another path</span>
          <input value={path} required onChange={(event) => setPath(event.currentTarget.value)} />
        </label>
        <label className="px-check">
          <input type="checkbox" checked={redirects} onChange={(event) => setRedirects(event.currentTarget.checked)} /> Redirect from {page.path}
        </label>
        <p className="px-dim">{mentions === 0 ? 'No other page mentions this path.' : mentions === 1 ? '1 other page mentions this path. It is not changed.' : `${mentions} other pages mention this path. They are not changed.`}</p>
        {fault && <p className="px-fault" role="alert">{fault}</p>}
        <div className="px-row">
          <button type="submit">Rename</button>
          <button type="button" onClick={onClose}>Cancel</button>
        </div>
      </form>
    </Dialog>
  );
}

/** Asks where the visitors of a removed page go. */
function Remove({ page, onClose, onRemove }: { page: PageEntry; onClose(): void; onRemove(to: string | null): void }): ReactNode {
  const [to, setTo] = useState('/');
  return (
    <Dialog label={`Remove ${page.path}`} onClose={onClose}>
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
    </Dialog>
  );
}
