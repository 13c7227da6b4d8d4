// The only module that uses Puck: its config from the components of the team and the site, and the editor.
import { type Config, type Field, type Fields, Puck, Render, createUsePuck, useGetPuck } from '@puckeditor/core';
import { Component, type ComponentType, type ReactNode, createContext, memo, useContext, useEffect, useMemo, useRef, useState } from 'react';
import { type Locks, locksOf } from '../core/blocks.js';
import type { Data } from '../core/map.js';
import type { Json } from '../core/json.js';
import type { ComponentShape, FieldShape } from './fields.js';

/** What a component of the team gets: that of the registry of `@parallax/sdk/react`. */
export interface NodeProps {
  id: string;
  type: string;
  props: any;
  zones: Record<string, ReactNode>;
  items?: any[];
  total?: number;
  route: { path: string; params: Record<string, string>; variants: string };
}
export type Registry = Record<string, ComponentType<NodeProps>>;

/** Fields that the team declares in place of those from the pages, by component type and prop. */
export type FieldOverrides = Record<string, Record<string, Field>>;

/** The words of a name: `ctaLabel` is "Cta label". */
export function labelOf(name: string): string {
  const words = name.replace(/([a-z0-9])([A-Z])/g, '$1 $2').replace(/[-_.]+/g, ' ').toLowerCase();
  return words.charAt(0).toUpperCase() + words.slice(1);
}

interface TextFieldProps {
  label: string;
  value: string;
  readOnly?: boolean;
  onChange(text: string): void;
  /** Returns a sentence for a text that is no value. */
  check?(text: string): string | null;
}

/** A field with several lines, whose text becomes a value while it is one. */
function ParsedText({ label, value, readOnly, onChange, check }: TextFieldProps): ReactNode {
  const [text, setText] = useState<string | null>(null);
  const shown = text ?? value;
  const fault = check?.(shown) ?? null;
  const change = (next: string) => {
    setText(next);
    if (!check?.(next)) onChange(next);
  };
  return (
    <label className="px-field">
      <span>{label}</span>
      <textarea value={shown} readOnly={readOnly} rows={4} aria-invalid={fault !== null} onChange={(event) => change(event.currentTarget.value)} onBlur={() => fault === null && setText(null)} />
      {fault !== null && <span className="px-fault" role="alert">{fault}</span>}
    </label>
  );
}

const isJson = (text: string): string | null => {
  try {
    JSON.parse(text);
    return null;
  } catch (error) {
    return `This is no JSON: ${(error as Error).message}`;
  }
};

const linesOf = (values: Json[] | undefined): string => (values ?? []).join('\n');
const isNumbers = (text: string): string | null => (text.split('\n').every((line) => line.trim() !== '' && !Number.isNaN(Number(line))) || text === '' ? null : 'Write one number on each line.');

/** Returns the field of Puck for a shape. Lists of texts, and values without a form, have a field of their own. */
function fieldOf(name: string, shape: FieldShape): Field {
  const label = labelOf(name);
  switch (shape.kind) {
    case 'text':
      return { type: 'text', label };
    case 'longText':
      return { type: 'textarea', label };
    case 'number':
      return { type: 'number', label };
    case 'boolean':
      return { type: 'radio', label, options: [{ label: 'Yes', value: true }, { label: 'No', value: false }] };
    case 'object':
      return { type: 'object', label, objectFields: fieldsOf(shape.members) };
    case 'list':
      return { type: 'array', label, arrayFields: fieldsOf(shape.members), getItemSummary: (item: Record<string, Json>, at = 0) => summaryOf(item) ?? `${label} ${at + 1}` } as Field;
    case 'texts':
      return { type: 'custom', label, render: ({ value, onChange, readOnly }) => <ParsedText label={label} value={linesOf(value)} readOnly={readOnly} onChange={(text) => onChange(text === '' ? [] : text.split('\n'))} /> };
    case 'numbers':
      return { type: 'custom', label, render: ({ value, onChange, readOnly }) => <ParsedText label={label} value={linesOf(value)} readOnly={readOnly} check={isNumbers} onChange={(text) => onChange(text === '' ? [] : text.split('\n').map(Number))} /> };
    case 'json':
      return { type: 'custom', label, render: ({ value, onChange, readOnly }) => <ParsedText label={label} value={JSON.stringify(value ?? null, null, 2)} readOnly={readOnly} check={isJson} onChange={(text) => onChange(JSON.parse(text))} /> };
  }
}

const fieldsOf = (members: Record<string, FieldShape>): Fields => Object.fromEntries(Object.entries(members).map(([name, shape]) => [name, fieldOf(name, shape)]));

/** Returns the first text of an item, which tells it apart from others. */
function summaryOf(item: Record<string, Json>): string | null {
  const text = Object.values(item).find((value) => typeof value === 'string' && value !== '');
  return typeof text === 'string' ? text : null;
}

/** The fields of a node or a page: its props, and its zones, which are no part of the form. */
function nodeFields({ members, zones }: ComponentShape, overrides: Record<string, Field> = {}): Fields {
  const slots = Object.fromEntries(zones.map((name) => [name, { type: 'slot', label: labelOf(name) }]));
  return {
    props: { type: 'object', label: 'Content', objectFields: { ...fieldsOf(members), ...overrides } },
    zones: { type: 'object', objectFields: slots, visible: false },
    query: { type: 'object', objectFields: {}, visible: false },
    $hidden: { type: 'object', objectFields: {}, visible: false },
    $members: { type: 'object', objectFields: {}, visible: false },
  } as unknown as Fields;
}

type SlotProps = { disallow?: string[] };
type Slots = Record<string, (props: SlotProps) => ReactNode> | undefined;

/**
 * Shows a slot of Puck, which makes another function for each slot within an object with every change of the block. As a component, each
 * of these functions would be another type, and React would build all blocks in the slot again.
 */
const Zone = ({ slot, ...props }: SlotProps & { slot: (props: SlotProps) => ReactNode }): ReactNode => slot(props);

/** Returns the zones of a block. No block can be dropped into those of `closed`. */
const renderedZones = (slots: Slots, closed: (name: string) => boolean, types: string[]): Record<string, ReactNode> =>
  Object.fromEntries(Object.entries(slots ?? {}).map(([name, slot]) => [name, typeof slot === 'function' ? <Zone key={name} slot={slot} {...(closed(name) && { disallow: types })} /> : null]));

/** Returns the locks of the data. They are computed once for each. */
function locksReader(isLocked: (zone: string) => boolean): (data: Data) => Locks {
  const known = new WeakMap<Data, Locks>();
  return (data) => {
    if (!known.has(data)) known.set(data, locksOf(data, isLocked));
    return known.get(data)!;
  };
}

export interface ConfigOptions {
  components: Registry;
  shapes: { types: Record<string, ComponentShape>; root: ComponentShape };
  overrides?: FieldOverrides;
  /** Places the zones of the page. Default: a section for each. */
  Page?: ComponentType<{ props: any; zones: Record<string, ReactNode> }>;
  /** True for a zone that this person may not change. Undefined if there is none. */
  isLocked?: (zone: string) => boolean;
}

interface ShownProps {
  id: string | null;
  slots: Slots;
  render(zones: Record<string, ReactNode>): ReactNode;
}

/** Returns the types of blocks: those of the team, and those of the pages. */
export const typesOf = ({ components, shapes }: Pick<ConfigOptions, 'components' | 'shapes'>): string[] => [...new Set([...Object.keys(components), ...Object.keys(shapes.types)])];

/** Returns the config of Puck. A type without a component of the team shows its name. */
export function configOf({ components, shapes, overrides = {}, Page = Sections, isLocked }: ConfigOptions): Config {
  const types = typesOf({ components, shapes });
  const locksIn = isLocked && locksReader(isLocked);
  const resolvePermissions = locksIn && (({ props }: any, { appState, permissions }: any) => permissionsOf(locksIn(appState.data), props.id, permissions));
  /** Renders a block of the team or a page. */
  const Open = ({ slots, render }: ShownProps): ReactNode => render(renderedZones(slots, () => false, types));
  /** The same in an editor with locks. A zone in a locked zone is closed as well. */
  function Lockable({ id, slots, render }: ShownProps): ReactNode {
    const isInside = usePuckStore((puck) => id !== null && locksIn!(puck.appState.data as unknown as Data).inside.has(id));
    return render(renderedZones(slots, (name) => isInside || isLocked!(name), types));
  }
  const Shown = locksIn ? Lockable : Open;
  const entries = types.map((type) => {
    const shape = shapes.types[type] ?? { members: {}, zones: [] };
    const Block = Object.hasOwn(components, type) ? components[type]! : Unknown;
    const render = ({ id, props, zones: slots }: any) => (
      <Guard type={type} props={props}>
        <Shown {...{ id, slots }} render={(zones) => <Block id={id} type={type} props={props ?? {}} zones={zones} items={[]} route={{ path: '/', params: {}, variants: '' }} />} />
      </Guard>
    );
    return [type, { label: labelOf(type), fields: nodeFields(shape, overrides[type]), defaultProps: { props: {} }, render, ...(resolvePermissions && { resolvePermissions }) }];
  });
  const root = {
    fields: { ...nodeFields(shapes.root, overrides.root), $root: { type: 'object', objectFields: {}, visible: false } },
    render: ({ props, zones: slots }: any) => <Shown id={null} slots={slots} render={(zones) => <Page props={props ?? {}} zones={zones} />} />,
  };
  return { components: Object.fromEntries(entries), root } as unknown as Config;
}

/** A block in a locked zone cannot be changed. One around a locked zone can be moved and edited. */
function permissionsOf({ inside, around }: Locks, id: string, permissions: Record<string, boolean>): Record<string, boolean> {
  if (inside.has(id)) return NOTHING;
  return around.has(id) ? { ...permissions, delete: false, duplicate: false } : permissions;
}

const NOTHING = { drag: false, duplicate: false, delete: false, edit: false, insert: false };

/** Shows a block that fails as a sentence, until its props change. The rest of the page stays. */
class Guard extends Component<{ type: string; props: unknown; children: ReactNode }, { failed: Error | null }> {
  override state: { failed: Error | null } = { failed: null };

  static getDerivedStateFromError(error: Error) {
    return { failed: error };
  }

  override componentDidUpdate(before: { props: unknown }): void {
    if (this.state.failed && before.props !== this.props.props) this.setState({ failed: null });
  }

  override render(): ReactNode {
    return this.state.failed ? <p>“{this.props.type}” cannot be shown: {this.state.failed.message}</p> : this.props.children;
  }
}

const Unknown = ({ type }: NodeProps) => <p>No component of the site shows “{type}”.</p>;

function Sections({ zones }: { zones: Record<string, ReactNode> }): ReactNode {
  return Object.entries(zones).map(([name, zone]) => (
    <section key={name} data-zone={name}>
      {zone}
    </section>
  ));
}

const usePuckStore = createUsePuck();

/** The state of the editor for the panels beside it. */
export interface EditorState {
  data: Data;
  /** The selected node, or null for the page. */
  selected: { type: string; id: string } | null;
  /** Replaces the data, as a step that can be undone. */
  setData(data: Data): void;
  /** Selects a block, or the page. A block that is not shown is ignored. */
  select(id: string | null): void;
  /** Copies a block, and selects the copy. */
  duplicate(id: string): void;
  /** The number of steps that can be undone. */
  steps: number;
  undo: (() => void) | null;
  redo: (() => void) | null;
}

export function useEditor(): EditorState {
  const data = usePuckStore((puck) => puck.appState.data) as unknown as Data;
  const item = usePuckStore((puck) => puck.selectedItem);
  const dispatch = usePuckStore((puck) => puck.dispatch);
  const history = usePuckStore((puck) => puck.history);
  const puck = useGetPuck();
  return {
    data,
    selected: item ? { type: item.type, id: item.props.id } : null,
    setData: (next) => dispatch({ type: 'setData', data: next as never, recordHistory: true } as never),
    select(id) {
      const itemSelector = id === null ? null : puck().getSelectorForId(id);
      if (itemSelector !== undefined) dispatch({ type: 'setUi', ui: { itemSelector } });
    },
    duplicate(id) {
      const place = puck().getSelectorForId(id);
      if (place) dispatch({ type: 'duplicate', sourceIndex: place.index, sourceZone: place.zone });
    },
    steps: history.index,
    undo: history.hasPast ? () => history.back() : null,
    redo: history.hasFuture ? () => history.forward() : null,
  };
}

export interface EditorProps extends ConfigOptions {
  data: Data;
  isReadOnly: boolean;
  onChange(data: Data): void;
  /** The bar above, the panel above the blocks to drag, what is above the fields, and the panel below them. All may use `useEditor`. */
  bar: ReactNode;
  outline: ReactNode;
  actions: ReactNode;
  panel: ReactNode;
  /** The kind of device whose width the shown page has. */
  device: Device;
}

export type Device = 'desktop' | 'tablet' | 'phone';

/** A page without the editor. */
export function RenderedPage({ data, components, shapes, overrides, Page }: ConfigOptions & { data: Data }): ReactNode {
  const config = useMemo(() => configOf({ components, shapes, overrides, Page }), [components, shapes, overrides, Page]);
  return <Render config={config} data={data as never} />;
}

const IFRAME = { enabled: true };

type Parts = Pick<EditorProps, 'bar' | 'outline' | 'actions' | 'panel' | 'isReadOnly' | 'device'>;
const PartsContext = createContext<Parts | null>(null);

/** The editor of one page. Its `data` is that of the start. */
export function PageEditor({ data, onChange, bar, outline, actions, panel, isReadOnly, device, ...options }: EditorProps): ReactNode {
  const { components, shapes, overrides, Page, isLocked } = options;
  const latest = useRef(onChange);
  latest.current = onChange;
  const [first] = useState(data);
  // Each change makes another text, and other parts. The editor library need not be rendered for that.
  const editor = useMemo(() => {
    const config = configOf({ components, shapes, overrides, Page, isLocked });
    return (
      <Puck config={config} data={first as never} permissions={isReadOnly ? NOTHING : undefined} onChange={(next) => latest.current(next as unknown as Data)} iframe={IFRAME}>
        <Columns />
      </Puck>
    );
  }, [components, shapes, overrides, Page, isLocked, isReadOnly, first]);
  return <PartsContext.Provider value={{ bar, outline, actions, panel, isReadOnly, device }}>{editor}</PartsContext.Provider>;
}

function Columns(): ReactNode {
  const { bar, outline, actions, panel, isReadOnly, device } = useContext(PartsContext)!;
  const fields = useRef<HTMLElement>(null);
  const selected = usePuckStore((puck) => puck.selectedItem?.props.id);
  // A block that a person selects in the page has its fields here, which can be out of sight.
  useEffect(() => {
    fields.current?.scrollIntoView({ block: 'nearest' });
  }, [selected]);
  return (
    <div className="px-editor">
      {bar}
      <div className="px-columns">
        <aside className="px-side" aria-label="Blocks and outline">
          {outline}
          {!isReadOnly && <Blocks />}
        </aside>
        <main className="px-preview" aria-label="Page" data-device={device}>
          <Preview />
        </main>
        <aside className="px-side" aria-label="Content">
          <section ref={fields} aria-label="Fields" tabIndex={-1} className="px-fields">
            {actions}
            <PuckFields />
          </section>
          {panel}
        </aside>
      </div>
    </div>
  );
}

// The parts of Puck take their state from its store: they need not be rendered with each change of the text.
const Preview = memo(() => <Puck.Preview />);
const PuckFields = memo(() => <Puck.Fields />);
const Blocks = memo(() => (
  <div className="px-blocks">
    <h2>Blocks to drag</h2>
    <Puck.Components />
  </div>
));

/** Moves the focus to the fields of the selected block. */
export function focusFields(): void {
  document.querySelector<HTMLElement>('.px-fields')?.focus();
}

/** Scrolls the shown page to a block. */
export function showBlock(id: string): void {
  const frame = document.querySelector<HTMLIFrameElement>('.px-preview iframe');
  frame?.contentDocument?.querySelector(`[data-puck-component="${CSS.escape(id)}"]`)?.scrollIntoView({ block: 'nearest' });
}
