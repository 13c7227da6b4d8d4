// Layouts of Parallax to the data of the Puck editor, and back.
//
// The props of a node are nested in `props`, so that nothing collides with the members of this file. In the config of Puck, `props`,
// `zones`, `query`, `$hidden` and `$members` are fields of the type `object`. The last three have no fields of their own: Puck looks
// for fields by their name at every depth of a value that has no field.
import type { Json, JsonObject } from './json.js';
import type { Layout, LayoutNode, PersonalizedZone, Zone } from './layout.js';
import {
  DEFAULT,
  LayoutError,
  NODE_NESTING_MAX,
  at,
  checkLayout,
  contentOf,
  contentsOf,
  isObject,
  isPersonalized,
  own,
  withContent,
} from './layout.js';

/** The data of Puck, as far as this package reads it. It is assignable to the type `Data` of `@puckeditor/core`. */
export interface Data {
  root: { props?: RootProps };
  content: PuckNode[];
  zones?: Record<string, PuckNode[]>;
}
export interface PuckNode {
  type: string;
  props: NodeProps;
}

/** The zones of a node or of the page. */
type ZoneProps = {
  /** The shown content of each zone: the slots. Puck adds an empty one for each declared slot. */
  zones?: Record<string, PuckNode[]>;
  /** The names of the zones that exist, in their order. Undefined if the node has no member `zones`. */
  $zones?: string[];
  /** The personalized zones. */
  $hidden?: Record<string, HiddenZone>;
};
export type NodeProps = ZoneProps & {
  id: string;
  props?: JsonObject;
  query?: Json;
  $members?: Members;
};
export type RootProps = ZoneProps & {
  props?: JsonObject;
  /** The members of the layout. */
  $members?: Members;
  /** The members of its `root`. */
  $root?: Members;
};

/** A personalized zone while Puck shows one of its contents. The shown one is empty in `zone`, so that it has one place. */
export interface HiddenZone {
  chosen: string;
  zone: PersonalizedZone;
}

/** The members of an object that are in another order than usual, or that this package does not know. */
interface Members {
  order: string[];
  rest: JsonObject;
}

/** The usual order of the members. A member that the file does not have comes after those that it has, in this order. */
const NODE_MEMBERS = ['id', 'type', 'props', 'zones', 'query'];
const LAYOUT_MEMBERS = ['root', 'zones'];
const ROOT_MEMBERS = ['props'];

/** Depth of values nested in a prop. The program reads JSON up to this depth. A deeper value is a `LayoutError`. */
const VALUE_NESTING_MAX = 128;

/**
 * Returns the data of Puck that shows the layout. `chosen` has the key of the shown content by the name of the zone. A zone that it does
 * not name, or whose content it does not know, shows its `default`.
 *
 * @throws LayoutError if the layout has another form.
 */
export function toPuck(layout: Layout, chosen: Record<string, string> = {}): Data {
  checkLayout(layout);
  const props: RootProps = { props: layout.root.props ?? {}, ...zonesToPuck(layout.zones, chosen) };
  const root = membersOf(layout.root as JsonObject, ROOT_MEMBERS);
  const members = membersOf(layout as unknown as JsonObject, LAYOUT_MEMBERS);
  if (members) props.$members = members;
  if (root) props.$root = root;
  return { root: { props }, content: [] };
}

function nodeToPuck(node: LayoutNode, chosen: Record<string, string>): PuckNode {
  const props: NodeProps = { id: node.id, props: node.props ?? {} };
  if (node.zones) Object.assign(props, zonesToPuck(node.zones, chosen));
  if (node.query !== undefined) props.query = node.query;
  const members = membersOf(node as unknown as JsonObject, NODE_MEMBERS);
  if (members) props.$members = members;
  return { type: node.type, props };
}

function zonesToPuck(zones: Record<string, Zone>, chosen: Record<string, string>): ZoneProps {
  const shown: [string, PuckNode[]][] = [];
  const hidden: [string, HiddenZone][] = [];
  for (const [name, zone] of Object.entries(zones)) {
    let nodes = zone as LayoutNode[];
    if (isPersonalized(zone)) {
      const wanted = own(chosen, name) ?? DEFAULT;
      const key = contentOf(zone, wanted) ? wanted : DEFAULT;
      nodes = contentOf(zone, key)!;
      hidden.push([name, { chosen: key, zone: withContent(zone, key, []) }]);
    }
    shown.push([name, nodes.map((node) => nodeToPuck(node, chosen))]);
  }
  const props: ZoneProps = { zones: Object.fromEntries(shown), $zones: shown.map(([name]) => name) };
  if (hidden.length > 0) props.$hidden = Object.fromEntries(hidden);
  return props;
}

/** Returns the order and the unknown members of an object, or undefined if it has the usual members in the usual order. */
function membersOf(object: JsonObject, usual: string[]): Members | undefined {
  const order = Object.keys(object);
  const rest = Object.entries(object).filter(([name, value]) => !usual.includes(name) || (name === 'zones' && value === null));
  const isUsual = rest.length === 0 && 'props' in object === usual.includes('props');
  if (isUsual && usual.filter((name) => order.includes(name)).every((name, index) => name === order[index])) return undefined;
  return { order, rest: Object.fromEntries(rest) };
}

/**
 * Returns the layout of the data of Puck. Drops empty zones that `$zones` does not name.
 *
 * @throws LayoutError if the data has another form, or a component outside of all zones.
 */
export function fromPuck(data: Data): Layout {
  const outside = [data.content, ...Object.values(data.zones ?? {})].flat()[0];
  if (outside) throw new LayoutError('/content', `each component in a zone, not the ${outside.type} outside of all zones`);
  const props = data.root.props ?? {};
  const root = withMembers({ props: asProps(props.props, '/root/props/props') }, ROOT_MEMBERS, props.$root);
  const layout = withMembers({ root, zones: zonesFromPuck(props, '/root/props', 1) ?? {} }, LAYOUT_MEMBERS, props.$members);
  return layout as unknown as Layout;
}

function nodeFromPuck(node: PuckNode, pointer: string, depth: number): LayoutNode {
  if (!isObject(node) || !isObject(node.props)) throw new LayoutError(pointer, 'a component of Puck');
  if (depth > NODE_NESTING_MAX) throw new LayoutError(pointer, `at most ${NODE_NESTING_MAX} nodes in each other`);
  const { id, props, query, $members } = node.props as unknown as NodeProps;
  const place = at(pointer, 'props');
  const known: Record<string, unknown> = { id, type: node.type, props: asProps(props, at(place, 'props')) };
  const zones = zonesFromPuck(node.props as unknown as NodeProps, place, depth + 1);
  if (zones) known.zones = zones;
  if (query !== undefined) known.query = asJson(query, at(place, 'query'), 0);
  return withMembers(known, NODE_MEMBERS, $members) as unknown as LayoutNode;
}

/** Returns the zones, or undefined if there is none. */
function zonesFromPuck({ zones, $zones, $hidden }: ZoneProps, pointer: string, depth: number): Record<string, Zone> | undefined {
  const filled = Object.keys(zones ?? {}).filter((name) => (zones![name] ?? []).length > 0);
  const names = new Set([...($zones ?? []), ...Object.keys($hidden ?? {}), ...filled]);
  if (names.size === 0 && !$zones) return undefined;
  const zoneOf = (name: string): Zone => {
    const place = at(at(pointer, 'zones'), name);
    const shown = own(zones, name) ?? [];
    if (!Array.isArray(shown)) throw new LayoutError(place, 'an array of components');
    const nodes = shown.map((node, index) => nodeFromPuck(node, at(place, index), depth));
    const hidden = own($hidden, name);
    return hidden ? withContent(hidden.zone, hidden.chosen, nodes) : nodes;
  };
  return Object.fromEntries([...names].map((name) => [name, zoneOf(name)]));
}

/** Returns the object with its unknown members, in its order. */
function withMembers(known: Record<string, unknown>, usual: string[], members: Members | undefined): JsonObject {
  if (!members) return known as JsonObject;
  const { order, rest } = members;
  const isNew = (name: string) => !order.includes(name) && !(name === 'props' && Object.keys(known.props as object).length === 0);
  const names = [...order, ...usual.filter(isNew)].filter((name) => Object.hasOwn(known, name) || Object.hasOwn(rest, name));
  return Object.fromEntries(names.map((name) => [name, Object.hasOwn(known, name) ? known[name] : rest[name]])) as JsonObject;
}

function asProps(props: unknown, pointer: string): JsonObject {
  const value = asJson(props ?? {}, pointer, 0);
  if (!isObject(value)) throw new LayoutError(pointer, 'an object');
  return value;
}

/** Returns a value without the members that are undefined, which a cleared field leaves. */
function asJson(value: unknown, pointer: string, depth: number): Json {
  if (depth > VALUE_NESTING_MAX) throw new LayoutError(pointer, `at most ${VALUE_NESTING_MAX} values in each other`);
  if (Array.isArray(value)) return value.map((item, index) => asJson(item ?? null, at(pointer, index), depth + 1));
  if (isObject(value) && isPlain(value)) {
    const members = Object.entries(value).filter(([, member]) => member !== undefined);
    return Object.fromEntries(members.map(([name, member]) => [name, asJson(member, at(pointer, name), depth + 1)]));
  }
  const isNumber = typeof value === 'number' && Number.isFinite(value);
  if (value !== null && !isNumber && typeof value !== 'string' && typeof value !== 'boolean')
    throw new LayoutError(pointer, 'a value of JSON');
  return value;
}

/** Returns whether an object is one of JSON. A React element or an object of a class has no end or no text. */
function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return !('$$typeof' in value) && (prototype === null || Object.getPrototypeOf(prototype) === null);
}

/** Returns the key of the shown content of each personalized zone that Puck shows. */
export function chosenOf(data: Data): Record<string, string> {
  const chosen: [string, string][] = [];
  visitZones(data.root.props ?? {}, (name, { chosen: key }) => chosen.push([name, key]));
  return Object.fromEntries(chosen);
}

/**
 * Shows other contents. `chosen` has their keys by the names of the zones, as in `toPuck`. The zones that it does not name stay. The
 * edited content goes back to its variant.
 *
 * @throws LayoutError as `fromPuck` does.
 */
export function choose(data: Data, chosen: Record<string, string>): Data {
  return toPuck(fromPuck(data), { ...chosenOf(data), ...chosen });
}

/** Calls `visit` for each personalized zone that Puck shows, in the order of the page. */
function visitZones(props: ZoneProps, visit: (name: string, hidden: HiddenZone) => void): void {
  for (const name of zoneNames(props)) {
    const hidden = own(props.$hidden, name);
    if (hidden) visit(name, hidden);
    for (const node of own(props.zones, name) ?? []) visitZones(node.props, visit);
  }
}

const zoneNames = ({ zones, $zones, $hidden }: ZoneProps) =>
  new Set([...($zones ?? []), ...Object.keys($hidden ?? {}), ...Object.keys(zones ?? {})]);

/**
 * Makes personalized zones plain whose name the page has twice, after Puck has copied a node: the first zone in the order of the page
 * stays, and so does one in a hidden variant. A plain zone keeps its shown content. Returns the same data if no name is there twice.
 */
export function withoutDuplicateZones(data: Data): Data {
  const kept = new Set<string>();
  const inHidden = new Set<string>();
  visitZones(data.root.props ?? {}, (name, { zone }) => {
    if (kept.has(name)) return;
    kept.add(name);
    for (const [, nodes] of contentsOf(zone)) addNames(nodes, inHidden);
  });
  const met = new Set(inHidden);
  const props = data.root.props && plainZones(data.root.props, met);
  return props === data.root.props ? data : { ...data, root: { ...data.root, props } };
}

function addNames(nodes: LayoutNode[], names: Set<string>): void {
  for (const [name, zone] of nodes.flatMap((node) => Object.entries(node.zones ?? {}))) {
    if (isPersonalized(zone)) names.add(name);
    for (const [, content] of isPersonalized(zone) ? contentsOf(zone) : [[name, zone] as const]) addNames(content, names);
  }
}

/** Makes the zones plain whose name is in `met`, and adds the others to it. Returns the same props if no zone is. */
function plainZones<P extends ZoneProps>(props: P, met: Set<string>): P {
  const zones: [string, PuckNode[]][] = [];
  const hidden = new Map(Object.entries(props.$hidden ?? {}));
  let isChanged = false;
  for (const name of zoneNames(props)) {
    if (hidden.has(name) && met.has(name)) isChanged = hidden.delete(name);
    else if (hidden.has(name)) met.add(name);
    const nodes = own(props.zones, name);
    if (!nodes) continue;
    const plain = nodes.map((node) => plainNode(node, met));
    isChanged ||= plain.some((node, index) => node !== nodes[index]);
    zones.push([name, plain]);
  }
  if (!isChanged) return props;
  const { $hidden: _, ...others } = props;
  return { ...others, zones: Object.fromEntries(zones), ...(hidden.size > 0 && { $hidden: Object.fromEntries(hidden) }) } as P;
}

function plainNode(node: PuckNode, met: Set<string>): PuckNode {
  const props = plainZones(node.props, met);
  return props === node.props ? node : { ...node, props };
}
