// The composer: the pages of a site, the editor of one, and its changes.
import { type ComponentType, type ReactNode, useEffect, useMemo, useState } from 'react';
import { type Layout, type Vocabulary, fromPuck, patch, toPuck, withoutDuplicateZones } from '../core/index.js';
import type { Data } from '../core/map.js';
import type { Json, JsonObject } from '../core/json.js';
import type { SiteFile } from '../server/storage.js';
import { type Api, ApiError, type LoadedSite, createApi } from './api.js';
import type { Diagnostic } from './author.js';
import { Changes, type ShownConflict } from './changes.js';
import { shapesOf } from './fields.js';
import { History } from './history.js';
import { Pages } from './pages.js';
import { useProblems } from './problems.js';
import { type FieldOverrides, PageEditor, type Registry, useEditor } from './puck-adapter.js';
import { SeeAs } from './see-as.js';
import { type Drafts, fileForPath, member, pagesOf, parsed, presentFiles, textOf, withText } from './site.js';
import { type AudienceEntry, Zones } from './variants.js';

export interface ComposerProps {
  /** The path of the handler, such as `/api/composer`. */
  endpoint: string;
  /** The components of the site, as for `Layout` of `@parallax/sdk/react`. */
  components: Registry;
  /** Fields in place of those that the pages suggest, by component type and prop. */
  fields?: FieldOverrides;
  /** Places the zones of a page. Default: a section for each. */
  page?: ComponentType<{ props: any; zones: Record<string, ReactNode> }>;
  /** False for a zone that this person may not change. */
  canEdit?: (place: { file: string; zone: string }) => boolean;
  /** Creates the worker that checks the site, and the address of the author module for it. Without them the program checks after a save. */
  createWorker?: () => Worker;
  moduleUrl?: string;
}

type View = { name: 'pages' } | { name: 'changes' } | { name: 'history' } | { name: 'page'; file: string };

export function Composer(props: ComposerProps): ReactNode {
  const api = useMemo(() => createApi(props.endpoint), [props.endpoint]);
  const [site, setSite] = useState<LoadedSite | null>(null);
  const [error, setError] = useState<string | null>(null);
  useEffect(() => {
    let isCurrent = true;
    api.load().then((loaded) => isCurrent && setSite(loaded), (reason: Error) => isCurrent && setError(reason.message));
    return () => {
      isCurrent = false;
    };
  }, [api]);
  if (error) return <p className="px-composer px-fault" role="alert">{error}</p>;
  if (!site) return <p className="px-composer" role="status">Loading the site …</p>;
  return <Loaded {...props} api={api} site={site} setSite={setSite} />;
}

const draftsKey = (endpoint: string) => `parallax.composer.${endpoint}`;

/** Returns the drafts that a closed tab has left. */
function storedDrafts(endpoint: string): Drafts {
  const stored = parsed(localStorage.getItem(draftsKey(endpoint)));
  return stored && typeof stored === 'object' ? (stored as unknown as Drafts) : {};
}

function audiencesOf(text: string | null, sizes: Map<string, string>): AudienceEntry[] {
  const audiences = parsed(text);
  if (!audiences || typeof audiences !== 'object' || Array.isArray(audiences)) return [];
  return Object.entries(audiences).filter(([key]) => !key.startsWith('$')).map(([key, value]) => ({ key, name: String(member(value, 'name') ?? key), size: sizes.get(key) ?? null }));
}

/** Returns the sizes of the audiences in words, by their keys. They are empty until the server has answered, and without one. */
function useSizes(api: Api): Map<string, string> {
  const [sizes, setSizes] = useState(new Map<string, string>());
  useEffect(() => {
    let isCurrent = true;
    const words = (atLeast: number, atMost: number) => `${atLeast === atMost ? atLeast : `${atLeast} to ${atMost}`} visitors now`;
    const listed = ({ audiences }: Awaited<ReturnType<Api['sizes']>>) => new Map(audiences.map(({ name, atLeast, atMost }) => [name, words(atLeast, atMost)]));
    // Without a server the names stand alone.
    api.sizes().then((answer) => isCurrent && setSizes(listed(answer)), () => {});
    return () => {
      isCurrent = false;
    };
  }, [api]);
  return sizes;
}

const shortText = (value: Json | undefined): string => (value === undefined ? '(removed)' : typeof value === 'string' ? value : JSON.stringify(value));

interface LoadedProps extends ComposerProps {
  api: Api;
  site: LoadedSite;
  setSite(site: LoadedSite): void;
}

function Loaded({ api, site, setSite, endpoint, components, fields, page, canEdit, createWorker, moduleUrl }: LoadedProps): ReactNode {
  const [drafts, setDrafts] = useState<Drafts>(() => storedDrafts(endpoint));
  const [view, setView] = useState<View>({ name: 'pages' });
  const [conflicts, setConflicts] = useState<ShownConflict[]>([]);
  const [notice, setNotice] = useState<string | null>(null);
  const [isSaving, setSaving] = useState(false);
  useEffect(() => localStorage.setItem(draftsKey(endpoint), JSON.stringify(drafts)), [endpoint, drafts]);
  const files = useMemo(() => presentFiles(site, drafts), [site, drafts]);
  const { report, error: checkError, vocabulary } = useProblems(createWorker, moduleUrl, files);
  const sizes = useSizes(api);
  const mayEdit = site.roles.includes('edit');
  const edit = (file: string, text: string | null) => setDrafts((last) => withText(site, last, file, text));

  /** Adds a page with this path, or a copy of another one. Returns the reason if the path cannot be used. */
  function addPage(path: string, from: string | null): string | null {
    if (!path.startsWith('/')) return 'A path begins with “/”.';
    if (pagesOf(site, drafts).some((other) => other.path === path && other.state !== 'removed')) return 'There is a page with this path.';
    const file = fileForPath(path, (name) => Object.hasOwn(files, name) || Object.hasOwn(site.files, name));
    const route = { path, layout: { root: { props: { title: path } }, zones: { main: [] } } };
    edit(file, from === null ? `${JSON.stringify(route, null, 2)}\n` : patch(files[from]!, { ...(parsed(files[from]) as JsonObject), path }));
    setView({ name: 'page', file });
    return null;
  }

  /** Removes a page, or makes it a redirect. */
  function removePage(file: string, redirectTo: string | null): void {
    const path = member(parsed(files[file]), 'path')!;
    edit(file, redirectTo === null ? null : `${JSON.stringify({ path, redirect: { to: redirectTo, status: 308 } }, null, 2)}\n`);
  }

  async function save(message: string, publishes: boolean): Promise<void> {
    setSaving(true);
    setNotice(null);
    try {
      const result = await api.save(site, drafts, message);
      if (result.kind === 'conflict') return await merge();
      const loaded = await api.load();
      setSite(loaded);
      setDrafts({});
      setConflicts([]);
      const published = publishes ? await api.publish(result.revision) : null;
      setNotice(published ? `Saved. ${published.status}` : result.url ? `Saved as a proposal: ${result.url}` : 'Saved.');
      setView({ name: 'pages' });
    } catch (reason) {
      setNotice(reason instanceof ApiError ? reason.message : String(reason));
    } finally {
      setSaving(false);
    }
  }

  /** Merges the changes of others into the drafts. The next save then has their files as its base. */
  async function merge(): Promise<void> {
    const { mergeFiles } = await import('../core/merge-files.js'); // few saves need it
    const loaded = await api.load();
    const texts = (pick: (file: string) => string | null | undefined) => Object.fromEntries(Object.keys(drafts).map((file) => [file, pick(file)]).filter((entry): entry is [string, string] => typeof entry[1] === 'string'));
    const merged = mergeFiles(texts((file) => drafts[file]!.base?.text), texts((file) => drafts[file]!.text), texts((file) => loaded.files[file]?.text));
    const next = Object.keys(drafts).reduce((all, file) => withText(loaded, all, file, merged.files[file] ?? null), {} as Drafts);
    setSite(loaded);
    setDrafts(next);
    setConflicts(merged.conflicts.map(({ file, path, ours, theirs }) => ({ file, pointer: path, ours: shortText(ours), theirs: shortText(theirs) })));
    setNotice('Someone else has saved meanwhile. Their changes are merged with yours. Nothing of yours is saved yet.');
  }

  /** Replaces all files by those of an earlier state, as changes that a person looks at before the save. */
  function restore(earlier: Record<string, SiteFile>): void {
    const names = new Set([...Object.keys(earlier), ...Object.keys(site.files)]);
    const next = [...names].reduce((all, file) => withText(site, all, file, Object.hasOwn(earlier, file) ? earlier[file]!.text : null), drafts);
    setDrafts(next);
    const isSame = Object.keys(next).length === 0;
    setNotice(isSame ? 'The site is as it was then.' : 'These changes take the site back. Nothing is saved yet.');
    setView(isSame ? { name: 'pages' } : { name: 'changes' });
  }

  const mistakes = new Map<string, number>();
  for (const { file } of report?.errors ?? []) mistakes.set(file, (mistakes.get(file) ?? 0) + 1);
  const shapes = useMemo(() => shapesOf(Object.entries(site.files).filter(([file]) => file.startsWith('routes/')).map(([, { text }]) => member(parsed(text), 'layout') ?? null)), [site]);
  const count = Object.keys(drafts).length;
  const changesButton = <button type="button" className="px-primary" disabled={count === 0} onClick={() => setView({ name: 'changes' })}>{count === 0 ? 'No changes' : `Changes (${count}) …`}</button>;
  const status = <p className="px-notice" role="status">{notice ?? checkError ?? ''}</p>;

  if (view.name === 'page' && files[view.file] !== undefined)
    return (
      <div className="px-composer">
        <Page
          key={view.file}
          text={files[view.file]!}
          {...{ api, components, fields, page, shapes }}
          isReadOnly={!mayEdit}
          vocabulary={vocabulary}
          audiences={audiencesOf(textOf(site, drafts, 'audiences.json'), sizes)}
          isLocked={(zone) => canEdit !== undefined && !canEdit({ file: view.file, zone })}
          problems={(report?.errors ?? []).filter(({ file }) => file === view.file)}
          onText={(text) => edit(view.file, text)}
          onClose={() => setView({ name: 'pages' })}
          actions={changesButton}
          status={status}
        />
      </div>
    );
  return (
    <div className="px-composer">
      <header className="px-bar">
        <b>Composer</b>
        <span className="px-dim">{site.user.name}</span>
        {view.name === 'pages' && changesButton}
        {view.name === 'pages' && <button type="button" onClick={() => setView({ name: 'history' })}>History</button>}
      </header>
      {status}
      {view.name === 'history' ? (
        <History {...{ api, mayEdit }} onRestore={restore} onClose={() => setView({ name: 'pages' })} />
      ) : view.name === 'changes' ? (
        <Changes {...{ site, drafts, conflicts, isSaving }} mayPublish={site.roles.includes('publish')} onSave={(message, publishes) => void save(message, publishes)} onDiscard={(file) => edit(file, drafts[file]!.base?.text ?? null)} onClose={() => setView({ name: 'pages' })} />
      ) : (
        <Pages pages={pagesOf(site, drafts)} {...{ mistakes, mayEdit }} onOpen={(file) => setView({ name: 'page', file })} onNew={addPage} onRemove={removePage} />
      )}
    </div>
  );
}

interface PageProps extends Pick<ComposerProps, 'components' | 'fields' | 'page'> {
  api: Api;
  text: string;
  shapes: ReturnType<typeof shapesOf>;
  isReadOnly: boolean;
  vocabulary: Vocabulary | null;
  audiences: AudienceEntry[];
  isLocked: (zone: string) => boolean;
  problems: Diagnostic[];
  onText(text: string): void;
  onClose(): void;
  actions: ReactNode;
  status: ReactNode;
}

/** The editor of a page. The text changes only where the person edits. */
function Page({ api, text, components, fields, page, shapes, isReadOnly, vocabulary, audiences, isLocked, problems, onText, onClose, actions, status }: PageProps): ReactNode {
  const route = parsed(text) as JsonObject;
  const [first] = useState<Data>(() => toPuck(route.layout as unknown as Layout));
  const change = (data: Data) => onText(patch(text, { ...route, layout: fromPuck(withoutDuplicateZones(data)) as unknown as Json }));
  return (
    <PageEditor
      data={first}
      {...{ components, shapes, isReadOnly }}
      overrides={fields}
      Page={page}
      onChange={change}
      bar={<Bar path={String(route.path)} onClose={onClose} actions={actions} status={status} />}
      panel={
        <>
          <Zones {...{ vocabulary, audiences, isReadOnly, isLocked }} />
          <SeeAs api={api} path={String(route.path)} vocabulary={vocabulary} />
          <ProblemList problems={problems} />
        </>
      }
    />
  );
}

function Bar({ path, onClose, actions, status }: { path: string; onClose(): void; actions: ReactNode; status: ReactNode }): ReactNode {
  const { undo, redo } = useEditor();
  return (
    <header className="px-bar">
      <button type="button" onClick={onClose}>← Pages</button>
      <b>{path}</b>
      <button type="button" disabled={!undo} onClick={() => undo?.()}>Undo</button>
      <button type="button" disabled={!redo} onClick={() => redo?.()}>Redo</button>
      {status}
      {actions}
    </header>
  );
}

function ProblemList({ problems }: { problems: Diagnostic[] }): ReactNode {
  if (problems.length === 0) return null;
  return (
    <section aria-label="Mistakes" className="px-problems">
      <h2>Mistakes</h2>
      <ul className="px-list">
        {problems.map(({ title, pointer, expected, help }, at) => (
          <li key={at}>
            <b>{title}</b> {pointer && <code>{pointer}</code>} {expected && <span>Expected {expected}.</span>} {help?.map((line) => <span key={line}>{line} </span>)}
          </li>
        ))}
      </ul>
    </section>
  );
}
