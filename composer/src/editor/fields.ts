// The fields of a component, from the props that the site has.
import type { Json, JsonObject } from '../core/json.js';

/** A field of the form, independent of the editor library. */
export type FieldShape =
  | { kind: 'text' | 'longText' | 'number' | 'boolean' | 'json' | 'texts' | 'numbers' }
  | { kind: 'object'; members: Record<string, FieldShape> }
  | { kind: 'list'; members: Record<string, FieldShape> };

/** What the pages of the site have of one component type. */
export interface ComponentShape {
  members: Record<string, FieldShape>;
  zones: string[];
}

/** A text beyond this length, or with a line break, gets a field with several lines. */
const SHORT_TEXT_CHARS_MAX = 60;
/** Depth of the forms. A deeper value is edited as JSON. */
const DEPTH_MAX = 5;

const isObject = (value: unknown): value is JsonObject => typeof value === 'object' && value !== null && !Array.isArray(value);

/** Returns the field that fits all values. */
export function fieldFor(values: Json[], depth = 0): FieldShape {
  const present = values.filter((value) => value !== null);
  const all = (test: (value: Json) => boolean) => present.length > 0 && present.every(test);
  if (all((value) => typeof value === 'string')) {
    const isLong = present.some((value) => (value as string).length > SHORT_TEXT_CHARS_MAX || (value as string).includes('\n'));
    return { kind: isLong ? 'longText' : 'text' };
  }
  if (all((value) => typeof value === 'number')) return { kind: 'number' };
  if (all((value) => typeof value === 'boolean')) return { kind: 'boolean' };
  if (depth >= DEPTH_MAX || present.length < values.length) return { kind: 'json' };
  if (all(isObject)) return { kind: 'object', members: membersFor(present as JsonObject[], depth + 1) };
  if (!all(Array.isArray)) return { kind: 'json' };
  const items = present.flat() as Json[];
  if (items.length > 0 && items.every(isObject)) return { kind: 'list', members: membersFor(items as JsonObject[], depth + 1) };
  if (items.every((item) => typeof item === 'string')) return { kind: 'texts' };
  if (items.every((item) => typeof item === 'number')) return { kind: 'numbers' };
  return { kind: 'json' };
}

/** Returns the fields of the members of all objects, in the order in which they appear first. */
function membersFor(objects: JsonObject[], depth: number): Record<string, FieldShape> {
  const values = new Map<string, Json[]>();
  for (const object of objects) {
    for (const [name, value] of Object.entries(object)) {
      if (!values.has(name)) values.set(name, []);
      values.get(name)!.push(value);
    }
  }
  return Object.fromEntries([...values].map(([name, found]) => [name, fieldFor(found, depth)]));
}

/** Calls `visit` for each node of a layout: in all zones, all their variants, and the nodes within. */
export function visitNodes(zones: unknown, visit: (node: JsonObject) => void): void {
  if (!isObject(zones)) return;
  for (const zone of Object.values(zones)) {
    const lists = Array.isArray(zone) ? [zone] : isObject(zone) ? [zone.default, ...Object.values(isObject(zone.variants) ? zone.variants : {})] : [];
    for (const node of lists.flatMap((list) => (Array.isArray(list) ? list : []))) {
      if (!isObject(node)) continue;
      visit(node);
      visitNodes(node.zones, visit);
    }
  }
}

/** Returns the component types of the layouts, and the fields of the pages themselves under the name of `root`. */
export function shapesOf(layouts: Json[]): { types: Record<string, ComponentShape>; root: ComponentShape } {
  const found = new Map<string, { props: JsonObject[]; zones: Set<string> }>();
  const root = { props: [] as JsonObject[], zones: new Set<string>() };
  for (const layout of layouts.filter(isObject)) {
    const page = isObject(layout.root) ? layout.root : {};
    if (isObject(page.props)) root.props.push(page.props);
    Object.keys(isObject(layout.zones) ? layout.zones : {}).forEach((name) => root.zones.add(name));
    visitNodes(layout.zones, (node) => {
      const type = String(node.type);
      const entry = found.get(type) ?? { props: [], zones: new Set<string>() };
      if (isObject(node.props)) entry.props.push(node.props);
      Object.keys(isObject(node.zones) ? node.zones : {}).forEach((name) => entry.zones.add(name));
      found.set(type, entry);
    });
  }
  const shape = ({ props, zones }: { props: JsonObject[]; zones: Set<string> }): ComponentShape => ({ members: membersFor(props, 1), zones: [...zones] });
  return { types: Object.fromEntries([...found].map(([type, entry]) => [type, shape(entry)])), root: shape(root) };
}

/** Returns the texts of a value that are not empty, in their order. */
export function* textsIn(value: Json): Generator<string, undefined> {
  if (typeof value === 'string' && value.trim() !== '') yield value.trim();
  else if (typeof value === 'object' && value !== null) for (const part of Object.values(value)) yield* textsIn(part);
}
