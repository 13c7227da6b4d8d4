// The layout of a page, as a route file has it.
import type { Json, JsonObject } from './json.js';

/** The content of a page. It may have further members, which stay. */
export interface Layout {
  root: { props?: JsonObject };
  zones: Record<string, Zone>;
}
export type Zone = LayoutNode[] | PersonalizedZone;
export interface LayoutNode {
  id: string;
  type: string;
  props?: JsonObject;
  zones?: Record<string, Zone>;
  query?: Json;
}
export interface PersonalizedZone {
  default: LayoutNode[];
  variants: Record<string, LayoutNode[]>;
  rules: JsonObject[];
}

/** The key of the content that a zone shows if no rule matches. */
export const DEFAULT = 'default';

/**
 * Depth of nodes nested in each other. The program refuses a page with more than 16. This limit allows to repair such a page, and bounds
 * the recursion. A deeper layout is a `LayoutError`.
 */
export const NODE_NESTING_MAX = 64;

/** The error for a layout, or for data of the editor, that has another form. `pointer` is its place (RFC 6901). */
export class LayoutError extends Error {
  constructor(
    readonly pointer: string,
    readonly expected: string,
  ) {
    super(`${pointer || 'the layout'}: expected ${expected}`);
    this.name = 'LayoutError';
  }
}

export const isObject = (value: unknown): value is JsonObject => typeof value === 'object' && value !== null && !Array.isArray(value);
export const isPersonalized = (zone: Zone): zone is PersonalizedZone => !Array.isArray(zone);

/** Returns the member with this name, or undefined. A name such as `constructor` is no inherited member. */
export function own<T>(members: Record<string, T> | undefined, name: string): T | undefined {
  return members !== undefined && Object.hasOwn(members, name) ? members[name] : undefined;
}

/** Returns the pointer of a member. */
export const at = (pointer: string, token: string | number) => `${pointer}/${String(token).replaceAll('~', '~0').replaceAll('/', '~1')}`;

/** Returns all contents of a personalized zone by their keys, `default` first. */
export function contentsOf(zone: PersonalizedZone): [string, LayoutNode[]][] {
  return [[DEFAULT, zone.default], ...Object.entries(zone.variants)];
}

/** Returns the content with this key, or undefined. */
export function contentOf(zone: PersonalizedZone, key: string): LayoutNode[] | undefined {
  return key === DEFAULT ? zone.default : own(zone.variants, key);
}

/** Returns the zone with another content. The order of its members stays. */
export function withContent(zone: PersonalizedZone, key: string, nodes: LayoutNode[]): PersonalizedZone {
  return key === DEFAULT ? { ...zone, default: nodes } : { ...zone, variants: { ...zone.variants, [key]: nodes } };
}

/** Checks that the value has the form of a layout, as far as the functions of this package read it. */
export function checkLayout(layout: unknown): asserts layout is Layout {
  if (!isObject(layout)) throw new LayoutError('', 'an object');
  const { root } = layout;
  if (!isObject(root)) throw new LayoutError('/root', 'an object');
  if (root.props !== undefined && !isObject(root.props)) throw new LayoutError('/root/props', 'an object');
  if (!isObject(layout.zones)) throw new LayoutError('/zones', 'an object');
  checkZones(layout.zones, '/zones', 1);
}

function checkZones(zones: JsonObject, pointer: string, depth: number): void {
  for (const [name, zone] of Object.entries(zones)) {
    const place = at(pointer, name);
    if (!isObject(zone)) checkNodes(zone, place, depth);
    else {
      const { default: content, variants, rules } = zone;
      checkNodes(content, at(place, 'default'), depth);
      if (!isObject(variants)) throw new LayoutError(at(place, 'variants'), 'an object of arrays');
      for (const [key, nodes] of Object.entries(variants)) checkNodes(nodes, at(at(place, 'variants'), key), depth);
      if (!Array.isArray(rules) || !rules.every(isObject)) throw new LayoutError(at(place, 'rules'), 'an array of rules');
    }
  }
}

function checkNodes(nodes: Json | undefined, pointer: string, depth: number): void {
  if (!Array.isArray(nodes)) throw new LayoutError(pointer, 'an array of nodes');
  if (depth > NODE_NESTING_MAX && nodes.length > 0) throw new LayoutError(pointer, `at most ${NODE_NESTING_MAX} nodes in each other`);
  for (const [index, node] of nodes.entries()) {
    const place = at(pointer, index);
    if (!isObject(node)) throw new LayoutError(place, 'a node');
    if (typeof node.id !== 'string') throw new LayoutError(at(place, 'id'), 'a string');
    if (typeof node.type !== 'string') throw new LayoutError(at(place, 'type'), 'a string');
    if (node.props !== undefined && !isObject(node.props)) throw new LayoutError(at(place, 'props'), 'an object');
    if (isObject(node.zones)) checkZones(node.zones, at(place, 'zones'), depth + 1);
    else if (node.zones !== undefined && node.zones !== null) throw new LayoutError(at(place, 'zones'), 'an object');
  }
}
