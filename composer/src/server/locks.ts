// Zones that a person may not change. The editor shows the same locks, and this check keeps them.
import type { Json } from '../core/json.js';
import { Problem } from './problem.js';
import type { Change, SiteFile } from './storage.js';

/** Tells whether the person of a request may change a zone of a page. */
export type MayChange = (place: { file: string; zone: string }) => boolean;

type Zones = Record<string, Json>;

/** Returns the contents of the zones of a page, by name. Containers can have zones of equal names. */
function contentsOf(text: string | null | undefined): Map<string, string[]> {
  const found = new Map<string, string[]>();
  const addNodes = (nodes: Json | undefined): void => {
    if (Array.isArray(nodes)) for (const node of nodes) addZones((node as { zones?: Json } | null)?.zones);
  };
  const addZones = (zones: Json | undefined): void => {
    if (typeof zones !== 'object' || zones === null || Array.isArray(zones)) return;
    for (const [name, zone] of Object.entries(zones as Zones)) {
      found.set(name, [...(found.get(name) ?? []), JSON.stringify(zone)].sort());
      addNodes(zone);
      const { default: nodes, variants } = Object(zone) as { default?: Json; variants?: Json };
      addNodes(nodes);
      Object.values(Object(variants) as Zones).forEach(addNodes);
    }
  };
  try {
    addZones((JSON.parse(text ?? '') as { layout?: { zones?: Json } } | null)?.layout?.zones);
  } catch {
    // A text that is no page has no zones, so its locked zones are gone.
  }
  return found;
}

/** Throws if a change concerns a zone that the person may not change. A block around it can be moved. */
export function checkLocks(changes: Change[], files: Record<string, SiteFile>, mayChange: MayChange): void {
  for (const { path: file, text } of changes) {
    if (!file.startsWith('routes/')) continue;
    const before = contentsOf(Object.hasOwn(files, file) ? files[file]!.text : null);
    const after = contentsOf(text);
    for (const zone of new Set([...before.keys(), ...after.keys()])) {
      if (JSON.stringify(before.get(zone)) === JSON.stringify(after.get(zone)) || mayChange({ file, zone })) continue;
      throw new Problem(403, 'zone_locked', `The zone ${JSON.stringify(zone)} of ${file} is locked for you. Nothing of this save was written.`);
    }
  }
}
