// The composer: the pages of a site, the editor of one, and its changes.
import { type ComponentType, type ReactNode, useCallback, useEffect, useMemo, useRef, useState } from 'react';
import type { Vocabulary } from '../core/conditions.js';
import type { Layout } from '../core/layout.js';
import { fromPuck, toPuck, withoutDuplicateZones } from '../core/map.js';
import { patch } from '../core/patch.js';
import type { Data } from '../core/map.js';
import type { Json, JsonObject } from '../core/json.js';
import type { SiteFile } from '../server/storage.js';
import { type Api, ApiError, type LoadedSite, createApi } from './api.js';
import type { Diagnostic } from './author.js';
import { BlockActions, Outline } from './blocks.js';
import { Changes, type ShownConflict } from './changes.js';
import { shapesOf } from './fields.js';
import { Pages } from './pages.js';
import { mentionsOf, pathRefusal, renamedPage } from './paths.js';
import { usePreviewToken } from './preview-token.js';
import { lazyPart } from './lazy-part.js';
import { PageProblems } from './problem-list.js';
import { useProblems } from './problems.js';
import { usePublication } from './publication.js';
import { type Proposal, proposalOf } from './proposal.js';
import { type Device, type FieldOverrides, PageEditor, type Registry, useEditor } from './puck-adapter.js';
import type { SeeAsProps } from './see-as.js';
import { type Drafts, eventNamesOf, fileForPath, member, pagesOf, parsed, presentFiles, textOf, withText } from './site.js';
import { type AudienceEntry, Zones } from './variants.js';
import { useViewFocus } from './view-focus.js';

const AfterSave = lazyPart(() => import('./after-save.js').then((module) => module.AfterSave));
const Audiences = lazyPart(() => import('./audiences.js').then((module) => module.Audiences));
const Experiments = lazyPart(() => import('./experiments.js').then((module) => module.Experiments));
const History = lazyPart(() => import('./history.js').then((module) => module.History));
const SeeAs = lazyPart(() => import('./see-as.js').then((module) => module.SeeAs));
const Preview = lazyPart(() => import('./preview.js').then((module) => module.Preview));

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

type View = { name: 'pages' } | { name: 'changes'; from: View } | { name: 'history' } | { name: 'experiments' } | { name: 'audiences' } | { name: 'page'; file: string };

export function Composer(props: ComposerProps): ReactNode {
  const token = usePreviewToken();
  const { endpoint, components, fields, page } = props;
  return token === null ? <Session {...props} /> : <Preview key={token} {...{ endpoint, components, fields, page, token }} />;
}

/** The composer of a person who is signed in. */
function Session(props: ComposerProps): ReactNode {
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
  useViewFocus(view);
  const [conflicts, setConflicts] = useState<ShownConflict[]>([]);
  const [notice, setNotice] = useState<string | null>(null);
  const [isSaving, setSaving] = useState(false);
  const [proposal, setProposal] = useState<Proposal | null>(null);
  const [message, setMessage] = useState('');
  const publication = usePublication(api);
  useEffect(() => localStorage.setItem(draftsKey(endpoint), JSON.stringify(drafts)), [endpoint, drafts]);
  const files = useMemo(() => presentFiles(site, drafts), [site, drafts]);
  const { report, error: checkError, vocabulary, experimentLimits, compare, explain } = useProblems(createWorker, moduleUrl, files);
  const saved = useMemo(() => presentFiles(site, {}), [site]);
  const sizes = useSizes(api);
  const eventNames = useMemo(() => eventNamesOf(site), [site]);
  const mayEdit = site.roles.includes('edit');
  const hasAfterSave = site.features.includes('publish') || site.features.includes('preview');
  const edit = (file: string, text: string | null) => {
    setNotice(null);
    setDrafts((last) => withText(site, last, file, text));
  };

  /** Adds a page with this path, or a copy of another one. Returns the reason if the path cannot be used. */
  function addPage(path: string, from: string | null): string | null {
    const refusal = pathRefusal(path, pagesOf(site, drafts));
    if (refusal) return refusal;
    const file = fileForPath(path, (name) => Object.hasOwn(files, name) || Object.hasOwn(site.files, name));
    const route = { path, layout: { root: { props: { title: path } }, zones: { main: [] } } };
    edit(file, from === null ? `${JSON.stringify(route, null, 2)}\n` : patch(files[from]!, { ...(parsed(files[from]) as JsonObject), path }));
    setView({ name: 'page', file });
    return null;
  }

  /** Gives a page another path. Returns the reason if the path cannot be used. */
  function renamePage(file: string, path: string, redirects: boolean): string | null {
    const renamed = renamedPage(site, drafts, file, path, redirects);
    if (typeof renamed === 'string') return renamed;
    setDrafts(renamed);
    return null;
  }

  /** Removes a page, or makes it a redirect. */
  function removePage(file: string, redirectTo: string | null): void {
    const path = member(parsed(files[file]), 'path')!;
    edit(file, redirectTo === null ? null : `${JSON.stringify({ path, redirect: { to: redirectTo, status: 308 } }, null, 2)}\n`);
  }

  async function save(publishes: boolean): Promise<void> {
    setSaving(true);
    setNotice(null);
    try {
      const result = await api.save(site, drafts, message.trim());
      if (result.kind === 'conflict') return await merge();
      const loaded = await api.load();
      setSite(loaded);
      setDrafts({});
      setConflicts([]);
      setMessage('');
      setProposal(proposalOf(site, drafts, result));
      setNotice(result.url ? `Saved as a proposal: ${result.url}` : 'Saved.');
      setView({ name: 'pages' });
      if (publishes) void publication.publish(result.revision);
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
    setView(isSame ? { name: 'pages' } : { name: 'changes', from: view });
  }

  const shapes = useMemo(() => shapesOf(Object.entries(site.files).filter(([file]) => file.startsWith('routes/')).map(([, { text }]) => member(parsed(text), 'layout') ?? null)), [site]);
  const count = Object.keys(drafts).length;
  const changesButton = <button type="button" className="px-primary" disabled={count === 0} onClick={() => setView({ name: 'changes', from: view })}>{count === 0 ? 'No changes' : `Changes (${count}) …`}</button>;
  const status = <p className="px-notice" role="status">{notice ?? checkError ?? ''}</p>;

  if (view.name === 'page' && files[view.file] !== undefined)
    return (
      <div className="px-composer">
        <Page
          key={view.file}
          text={files[view.file]!}
          {...{ components, fields, page, shapes }}
          isReadOnly={!mayEdit}
          vocabulary={vocabulary}
          seeAs={createWorker && moduleUrl && !vocabulary && !checkError ? null : { explain: explain ?? api.explain, explainReal: site.roles.includes('visitors') ? api.explain : null, isOfDraft: explain !== null, eventNames }}
          audiences={audiencesOf(textOf(site, drafts, 'audiences.json'), sizes)}
          canEdit={canEdit}
          file={view.file}
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
        {['pages', 'experiments', 'audiences'].includes(view.name) && changesButton}
        {view.name === 'pages' && <button type="button" onClick={() => setView({ name: 'history' })}>History</button>}
        {view.name === 'pages' && <button type="button" onClick={() => setView({ name: 'experiments' })}>Experiments</button>}
        {view.name === 'pages' && <button type="button" onClick={() => setView({ name: 'audiences' })}>Audiences</button>}
      </header>
      {status}
      {view.name === 'history' ? (
        <History {...{ api, site }} onRestore={restore} onClose={() => setView({ name: 'pages' })} />
      ) : view.name === 'changes' ? (
        <Changes {...{ site, drafts, conflicts, isSaving, saved, files, compare, message }} mayPublish={site.roles.includes('publish') && site.features.includes('publish')} onMessage={setMessage} onSave={(publishes) => void save(publishes)} onDiscard={(file) => edit(file, drafts[file]!.base?.text ?? null)} onClose={() => setView(view.from)} />
      ) : view.name === 'experiments' ? (
        <Experiments {...{ files, report, vocabulary, mayEdit }} limits={experimentLimits} isLocked={(place) => canEdit !== undefined && !canEdit(place)} onChange={(texts) => Object.entries(texts).forEach(([file, text]) => edit(file, text))} onClose={() => setView({ name: 'pages' })} />
      ) : view.name === 'audiences' ? (
        <Audiences {...{ files, report, vocabulary, mayEdit }} audiences={audiencesOf(textOf(site, drafts, 'audiences.json'), sizes)} onChange={edit} onClose={() => setView({ name: 'pages' })} />
      ) : (
        <>
          {count === 0 && hasAfterSave && <AfterSave {...{ api, site, proposal, publication }} />}
          <Pages
            pages={pagesOf(site, drafts)}
            problems={report?.errors ?? []}
            mayEdit={mayEdit}
            onOpen={(file) => setView({ name: 'page', file })}
            onNew={addPage}
            onRename={renamePage}
            onRemove={removePage}
            mentions={({ file, path }) => mentionsOf(files, file, path)}
          />
        </>
      )}
    </div>
  );
}

interface PageProps extends Pick<ComposerProps, 'components' | 'fields' | 'page' | 'canEdit'> {
  file: string;
  text: string;
  shapes: ReturnType<typeof shapesOf>;
  isReadOnly: boolean;
  vocabulary: Vocabulary | null;
  /** Null until the module is there, or until it is known that there is none. */
  seeAs: Omit<SeeAsProps, 'path' | 'vocabulary' | 'onDevice'> | null;
  audiences: AudienceEntry[];
  problems: Diagnostic[];
  onText(text: string): void;
  onClose(): void;
  actions: ReactNode;
  status: ReactNode;
}

/** The editor of a page. The text changes only where the person edits. */
function Page({ file, text, components, fields, page, canEdit, shapes, isReadOnly, vocabulary, seeAs, audiences, problems, onText, onClose, actions, status }: PageProps): ReactNode {
  const route = parsed(text) as JsonObject;
  const [first] = useState<Data>(() => toPuck(route.layout as unknown as Layout));
  const [wanted, setWanted] = useState<{ zone: string } | null>(null);
  const [device, setDevice] = useState<Device>('desktop');
  const mayEditZone = useRef(canEdit);
  mayEditZone.current = canEdit;
  const isLocked = useCallback((zone: string) => mayEditZone.current?.({ file, zone }) === false, [file]);
  const blocks = { components, shapes, isReadOnly, isLocked };
  const change = (data: Data) => onText(patch(text, { ...route, layout: fromPuck(withoutDuplicateZones(data)) as unknown as Json }));
  return (
    <PageEditor
      data={first}
      {...{ components, shapes, isReadOnly }}
      isLocked={canEdit && isLocked}
      overrides={fields}
      Page={page}
      onChange={change}
      device={device}
      bar={<Bar path={String(route.path)} {...{ onClose, actions, status, device }} onDevice={setDevice} />}
      outline={
        <>
          <PageProblems problems={problems} onZone={(zone) => setWanted({ zone })} />
          <Outline {...blocks} />
        </>
      }
      actions={<BlockActions {...blocks} />}
      panel={
        <>
          <Zones {...{ vocabulary, audiences, isReadOnly, isLocked, wanted }} />
          {seeAs && <SeeAs path={String(route.path)} vocabulary={vocabulary} {...seeAs} onDevice={setDevice} />}
        </>
      }
    />
  );
}

interface BarProps {
  path: string;
  device: Device;
  actions: ReactNode;
  status: ReactNode;
  onDevice(device: Device): void;
  onClose(): void;
}

function Bar({ path, device, actions, status, onDevice, onClose }: BarProps): ReactNode {
  const { undo, redo, steps } = useEditor();
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => heading.current?.focus(), []);
  return (
    <header className="px-bar">
      <button type="button" onClick={onClose}>← Pages</button>
      <h1 ref={heading} tabIndex={-1}>{path}</h1>
      <button type="button" data-steps={steps} disabled={!undo} onClick={() => undo?.()}>Undo</button>
      <button type="button" disabled={!redo} onClick={() => redo?.()}>Redo</button>
      <label className="px-width">
        <span className="px-dim">Width</span>{' '}
        <select value={device} onChange={(event) => onDevice(event.currentTarget.value as Device)}>
          <option>desktop</option>
          <option>tablet</option>
          <option>phone</option>
        </select>
      </label>
      {status}
      {actions}
    </header>
  );
}
