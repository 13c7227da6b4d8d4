// The personalized zones of all pages of a site.
import type { Json, JsonObject } from './json.js';
import { DEFAULT, LayoutError, NODE_NESTING_MAX, at, isObject } from './layout.js';

/** A personalized zone of a page. Its name is unique on the page. */
export interface SiteZone {
  file: string;
  /** The path of the page. */
  path: string;
  zone: string;
  /** The JSON pointer of the zone in the file. */
  pointer: string;
  /** The keys of its contents, `default` first. */
  versions: string[];
  /** The rules as the file has them. Those that are no objects are refused by the program. */
  rules: Json[];
}

/** Returns the personalized zones of the pages, in the order of the files. Parts of another form have none. */
export function zonesOfSite(files: Record<string, Json>): SiteZone[] {
  const found: SiteZone[] = [];
  for (const [file, route] of Object.entries(files)) {
    if (!file.startsWith('routes/') || !isObject(route) || !isObject(route.layout)) continue;
    visitZones(route.layout.zones, '/layout/zones', 1, (zone, pointer, { variants, rules }) => {
      const versions = [DEFAULT, ...Object.keys(isObject(variants) ? variants : {})];
      found.push({ file, path: String(route.path), zone, pointer, versions, rules: Array.isArray(rules) ? rules : [] });
    });
  }
  return found;
}

/** Calls `visit` for each personalized zone. Skips parts of another form, which the program refuses. */
function visitZones(
  zones: Json | undefined,
  pointer: string,
  depth: number,
  visit: (name: string, pointer: string, zone: JsonObject) => void,
): void {
  if (!isObject(zones)) return;
  if (depth > NODE_NESTING_MAX + 1) throw new LayoutError(pointer, `at most ${NODE_NESTING_MAX} nodes in each other`);
  const visitNodes = (nodes: Json | undefined, place: string) => {
    for (const [index, node] of (Array.isArray(nodes) ? nodes : []).entries()) {
      if (isObject(node)) visitZones(node.zones, at(at(place, index), 'zones'), depth + 1, visit);
    }
  };
  for (const [name, zone] of Object.entries(zones)) {
    const place = at(pointer, name);
    if (!isObject(zone)) {
      visitNodes(zone, place);
      continue;
    }
    visit(name, place, zone);
    visitNodes(zone.default, at(place, DEFAULT));
    for (const [key, nodes] of Object.entries(isObject(zone.variants) ? zone.variants : {})) visitNodes(nodes, at(at(place, 'variants'), key));
  }
}

/** Returns the value with another one at a pointer. Arrays and the order of members stay. */
export function withValue(target: Json, pointer: string, value: Json): Json {
  return replaced(target, pointer.split('/').slice(1), value);
}

function replaced(target: Json, [token, ...rest]: string[], value: Json): Json {
  if (token === undefined) return value;
  const name = token.replaceAll('~1', '/').replaceAll('~0', '~');
  if (Array.isArray(target)) return target.map((item, index) => (String(index) === name ? replaced(item, rest, value) : item));
  const members = target as JsonObject;
  return { ...members, [name]: replaced(members[name]!, rest, value) };
}
