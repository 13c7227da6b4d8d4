// The block and the zone that a JSON pointer leads to.
import { type LayoutNode, type Layout, type Zone, DEFAULT, contentOf, isPersonalized, own } from './layout.js';

export interface Place {
  /** The innermost block with the value, or null if it is outside of all blocks, or in the rules of a zone. */
  block: string | null;
  /** The innermost zone with the value. */
  zone: string | null;
  /** The key of the content to show, by the name of each personalized zone around the value. */
  chosen: Record<string, string>;
}

/** Returns the place of a pointer into a layout. A pointer to nothing is at the innermost block or zone that exists. */
export function placeOf(layout: Layout, pointer: string): Place {
  const tokens = pointer.split('/').slice(1).map((token) => token.replaceAll('~1', '/').replaceAll('~0', '~'));
  const place: Place = { block: null, zone: null, chosen: {} };
  let owner: { zones?: Record<string, Zone> } = layout;
  while (tokens.shift() === 'zones') {
    const name = tokens.shift();
    const zone = name === undefined ? undefined : own(owner.zones, name);
    if (zone === undefined) break;
    Object.assign(place, { block: null, zone: name });
    const block = blockOf(zone, name!, tokens, place.chosen);
    if (!block) break;
    place.block = block.id;
    owner = block;
  }
  return place;
}

/** Takes the tokens of a block in a zone. Notes which content has it. */
function blockOf(zone: Zone, name: string, tokens: string[], chosen: Record<string, string>): LayoutNode | undefined {
  if (!isPersonalized(zone)) return zone[Number(tokens.shift())];
  const member = tokens.shift();
  const key = member === DEFAULT ? DEFAULT : member === 'variants' ? tokens.shift() : undefined;
  const content = key === undefined ? undefined : contentOf(zone, key);
  if (!content) return undefined;
  chosen[name] = key!;
  return content[Number(tokens.shift())];
}
