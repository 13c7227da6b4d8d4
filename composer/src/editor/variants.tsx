// The personalized zones of a page.
import { type ReactNode, useEffect, useState } from 'react';
import type { Vocabulary } from '../core/conditions.js';
import type { Layout, PersonalizedZone } from '../core/layout.js';
import { choose, chosenOf, fromPuck, toPuck } from '../core/map.js';
import { lazyPart } from './lazy-part.js';
import { useEditor } from './puck-adapter.js';

/** The name of the content without a rule. */
export const DEFAULT = 'default';

/** It is loaded with the first zone that is opened. */
const Zone = lazyPart(() => import('./zone-editor.js').then((module) => module.Zone));

/** Returns the zones of a layout by their names, also those in containers and in the variants. */
export function zonesOf(layout: Layout): Map<string, PersonalizedZone | null> {
  const found = new Map<string, PersonalizedZone | null>();
  const visit = (zones: Layout['zones']): void => {
    for (const [name, zone] of Object.entries(zones)) {
      const personalized = Array.isArray(zone) ? null : zone;
      found.set(name, personalized ?? found.get(name) ?? null);
      const lists = personalized ? [personalized.default, ...Object.values(personalized.variants)] : [zone as any[]];
      for (const node of lists.flat()) if (node.zones) visit(node.zones);
    }
  };
  visit(layout.zones);
  return found;
}

/** Returns the names of the locked zones, and of those within them. */
function lockedIn(zones: Layout['zones'], isLocked: (zone: string) => boolean, isWithin: boolean): Set<string> {
  const locked = new Set<string>();
  for (const [name, zone] of Object.entries(zones)) {
    const isClosed = isWithin || isLocked(name);
    if (isClosed) locked.add(name);
    const lists = Array.isArray(zone) ? [zone] : [zone.default, ...Object.values(zone.variants)];
    for (const node of lists.flat()) for (const inner of lockedIn(node.zones ?? {}, isLocked, isClosed)) locked.add(inner);
  }
  return locked;
}

export interface AudienceEntry {
  key: string;
  name: string;
  /** The number of its visitors now, in words. Null if no server can be asked. */
  size: string | null;
}

interface ZonesProps {
  vocabulary: Vocabulary | null;
  audiences: AudienceEntry[];
  isReadOnly: boolean;
  isLocked: (zone: string) => boolean;
  /** A zone to open, with the focus on its versions. Another object opens it again. */
  wanted: { zone: string } | null;
}

/** The panel of the zones of the page. `isLocked` tells whether a person may not change a zone. */
export function Zones({ vocabulary, audiences, isReadOnly, isLocked, wanted }: ZonesProps): ReactNode {
  const { data, setData } = useEditor();
  const [open, setOpen] = useState<string | null>(null);
  useEffect(() => setOpen(wanted?.zone ?? null), [wanted]);
  const layout = fromPuck(data);
  const zones = [...zonesOf(layout)];
  const lockedZones = lockedIn(layout.zones, isLocked, false);
  const chosen = chosenOf(data);
  const name = open !== null && zones.some(([zone]) => zone === open) ? open : null;
  const show = (next: Layout, selection: Record<string, string>) => setData(toPuck(next, { ...chosen, ...selection }));
  return (
    <section aria-label="Zones">
      <h2>Zones</h2>
      <ul className="px-list">
        {zones.map(([zone, personalized]) => (
          <li key={zone}>
            <button type="button" aria-expanded={zone === name} onClick={() => setOpen(zone === name ? null : zone)}>
              {zone} <span className="px-dim">{personalized ? `${Object.keys(personalized.variants).length + 1} versions` : 'the same for everyone'}</span>
            </button>
            {zone === name && (
              <Zone
                {...{ zone, personalized, layout, vocabulary, audiences }}
                chosen={chosen[zone] ?? DEFAULT}
                wanted={wanted?.zone === zone ? wanted : null}
                isReadOnly={isReadOnly || lockedZones.has(zone)}
                onChoose={(key) => setData(choose(data, { [zone]: key }))}
                onChange={show}
              />
            )}
          </li>
        ))}
      </ul>
    </section>
  );
}
