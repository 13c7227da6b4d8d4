// The blocks that Puck shows: where they are, and changes of their places.
import { own } from './layout.js';
import type { Data, PuckNode, RootProps } from './map.js';

/** A place for a block: before the block that has this index in the zone now, or at the end. */
export interface Spot {
  /** The ID of the block that has the zone, or null for the page. */
  owner: string | null;
  zone: string;
  index: number;
}

/** A zone that Puck shows. */
export interface ShownZone {
  owner: PuckNode | null;
  name: string;
  /** The key of the shown content, or null for a zone without variants. */
  chosen: string | null;
  blocks: PuckNode[];
  /** The names of the zones from the page to this one. */
  path: string[];
  /** The IDs of the blocks around the zone. */
  around: string[];
}

/** Returns the zones that exist, each before those of its blocks. A declared zone that the page does not have is not one of them. */
export function shownZones(data: Data): ShownZone[] {
  return zonesWithin(data.root.props ?? {}, null, [], []);
}

function zonesWithin(props: RootProps, owner: PuckNode | null, path: string[], around: string[]): ShownZone[] {
  const filled = Object.entries(props.zones ?? {}).filter(([, blocks]) => (blocks ?? []).length > 0);
  const names = new Set([...(props.$zones ?? []), ...Object.keys(props.$hidden ?? {}), ...filled.map(([name]) => name)]);
  return [...names].flatMap((name) => {
    const blocks = own(props.zones, name) ?? [];
    const zone: ShownZone = { owner, name, chosen: own(props.$hidden, name)?.chosen ?? null, blocks, path: [...path, name], around };
    return [zone, ...blocks.flatMap((block) => zonesWithin(block.props, block, zone.path, [...around, block.props.id]))];
  });
}

/** Returns where a block is, or null if Puck does not show it. */
export function spotOf(data: Data, id: string): Spot | null {
  for (const { owner, name, blocks } of shownZones(data)) {
    const index = blocks.findIndex(({ props }) => props.id === id);
    if (index >= 0) return { owner: owner?.props.id ?? null, zone: name, index };
  }
  return null;
}

/** Returns the data with another block. */
export function insertBlock(data: Data, block: PuckNode, { owner, zone, index }: Spot): Data {
  return mapZones(data, (zones, id) => {
    if (id !== owner) return zones;
    const blocks = own(zones, zone) ?? [];
    return { ...zones, [zone]: [...blocks.slice(0, index), block, ...blocks.slice(index)] };
  });
}

/** Returns the data without a block. */
export function removeBlock(data: Data, id: string): Data {
  return mapZones(data, (zones) => Object.fromEntries(Object.entries(zones).map(([name, blocks]) => [name, blocks.filter(({ props }) => props.id !== id)])));
}

/**
 * Returns the data with a block at another place, with all zones and variants within it. Returns null if Puck does not show the block, or
 * if the place is within it.
 */
export function moveBlock(data: Data, id: string, to: Spot): Data | null {
  const from = spotOf(data, id);
  if (!from || !canHold(data, id, to.owner)) return null;
  const block = shownZones(data).flatMap(({ blocks }) => blocks).find(({ props }) => props.id === id)!;
  const isSameZone = from.owner === to.owner && from.zone === to.zone;
  const index = isSameZone && from.index < to.index ? to.index - 1 : to.index;
  return insertBlock(removeBlock(data, id), block, { ...to, index });
}

/** Returns whether a block is not the owner of a place itself, and not around the owner. */
export function canHold(data: Data, id: string, owner: string | null): boolean {
  const outer = shownZones(data).find(({ blocks }) => blocks.some(({ props }) => props.id === owner));
  return owner !== id && !outer?.around.includes(id);
}

/** The blocks that a person may not change. */
export interface Locks {
  /** Blocks in a locked zone, also in one around them. */
  inside: Set<string>;
  /** Blocks around a locked zone. They can be moved and edited, but neither removed nor copied. */
  around: Set<string>;
}

/** Returns whether a zone is locked: by itself, or by a zone around it. */
export const isZoneLocked = ({ path }: Pick<ShownZone, 'path'>, isLocked: (zone: string) => boolean): boolean => path.some(isLocked);

export function locksOf(data: Data, isLocked: (zone: string) => boolean): Locks {
  const locked = shownZones(data).filter((zone) => isZoneLocked(zone, isLocked));
  return { inside: new Set(locked.flatMap(({ blocks }) => blocks.map(({ props }) => props.id))), around: new Set(locked.flatMap(({ around }) => around)) };
}

type Zones = Record<string, PuckNode[]>;

/** Edits the zones of the page and of each block, from the innermost ones. Props without zones stay so if the edit adds none. */
function mapZones(data: Data, edit: (zones: Zones, owner: string | null) => Zones): Data {
  const within = <P extends RootProps>(props: P, owner: string | null): P => {
    const mapped = Object.entries(props.zones ?? {}).map(([name, blocks]) => [name, blocks.map((block) => ({ ...block, props: within(block.props, block.props.id) }))]);
    const zones = edit(Object.fromEntries(mapped), owner);
    return Object.keys(zones).length === 0 ? props : { ...props, zones };
  };
  return { ...data, root: { ...data.root, props: within(data.root.props ?? {}, null) } };
}
