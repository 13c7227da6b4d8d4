// Changes of the variants of a personalized zone.
import type { Json, JsonObject } from './json.js';
import type { Layout, LayoutNode, PersonalizedZone, Zone } from './layout.js';
import { DEFAULT, checkLayout, contentOf, contentsOf, isObject, isPersonalized, own } from './layout.js';

/** The changed layout, or in words why it cannot be changed. */
export type Change = { layout: Layout; error?: undefined } | { layout?: undefined; error: string };

/** Number of variants of a zone besides `default`. The program refuses more (`VARIANTS_MAX`). */
const VARIANTS_MAX = 64;
const KEY = /^[A-Za-z0-9_-]{1,64}$/;

/** The reason why a change is refused. */
class Refusal extends Error {}

/**
 * Adds a variant with a copy of the content `copyOf`, or without content. Personalized zones in the copy become plain with their default
 * content, because their names are unique on a page. A plain zone becomes personalized: if the page has several with the name, `nodeId`
 * names the node of the one.
 */
export function addVariant(layout: Layout, zone: string, key: string, copyOf?: string, nodeId?: string): Change {
  return change(layout, zone, nodeId, (found) => {
    const personalized = isPersonalized(found) ? found : { default: found, variants: {}, rules: [] };
    checkNewKey(personalized, zone, key);
    if (Object.keys(personalized.variants).length >= VARIANTS_MAX) {
      throw new Refusal(`The zone "${zone}" has ${VARIANTS_MAX} variants already. A zone cannot have more.`);
    }
    const copied = copyOf === undefined ? [] : contentOf(personalized, copyOf);
    if (!copied) throw new Refusal(`The zone "${zone}" has no variant "${copyOf}".`);
    return { ...personalized, variants: { ...personalized.variants, [key]: plainCopy(copied) } };
  });
}

/** Renames a variant. The rules that select it select the new name. */
export function renameVariant(layout: Layout, zone: string, key: string, to: string): Change {
  return changeVariant(layout, zone, key, 'renamed', (found) => {
    if (to === key) return found;
    checkNewKey(found, zone, to);
    const variants = Object.entries(found.variants).map(([name, nodes]) => [name === key ? to : name, nodes] as const);
    const rules = found.rules.map((rule) => (rule.variant === key ? { ...rule, variant: to } : rule));
    return { ...found, variants: Object.fromEntries(variants), rules };
  });
}

/** Removes a variant and the rules that select it. */
export function removeVariant(layout: Layout, zone: string, key: string): Change {
  return changeVariant(layout, zone, key, 'removed', (found) => {
    const variants = Object.entries(found.variants).filter(([name]) => name !== key);
    return { ...found, variants: Object.fromEntries(variants), rules: found.rules.filter((rule) => rule.variant !== key) };
  });
}

function changeVariant(
  layout: Layout,
  zone: string,
  key: string,
  done: string,
  edit: (zone: PersonalizedZone) => PersonalizedZone,
): Change {
  return change(layout, zone, undefined, (found) => {
    if (key === DEFAULT) throw new Refusal(`The default content of a zone cannot be ${done}.`);
    if (!isPersonalized(found) || !own(found.variants, key)) throw new Refusal(`The zone "${zone}" has no variant "${key}".`);
    const using = found.rules.map(({ experiment }) => experiment).filter((experiment) => usesArm(experiment, key));
    const names = using.map((experiment) => `"${String((experiment as JsonObject).key)}"`).join(', ');
    if (names) {
      const reason = `because visitors of the experiment ${names} see it`;
      throw new Refusal(`The variant "${key}" cannot be ${done}, ${reason}. Remove the experiment from the zone "${zone}" first.`);
    }
    return edit(found);
  });
}

const usesArm = (experiment: Json | undefined, key: string) =>
  isObject(experiment) && ((Array.isArray(experiment.variants) && experiment.variants.includes(key)) || experiment.winner === key);

function checkNewKey(zone: PersonalizedZone, name: string, key: string): void {
  if (!KEY.test(key)) throw new Refusal(`"${key}" cannot be the name of a variant. Use 1 to 64 letters from a to z, digits, "-" and "_".`);
  if (contentOf(zone, key)) throw new Refusal(`The zone "${name}" has a variant "${key}" already.`);
}

/** Changes the zone with this name: the personalized one, else the only plain one, in the node `nodeId` if it is given. */
function change(layout: Layout, name: string, nodeId: string | undefined, edit: (zone: Zone) => Zone): Change {
  checkLayout(layout);
  try {
    const all = zonesOf(layout.zones, undefined).filter(
      (found) => found.name === name && (nodeId === undefined || found.nodeId === nodeId),
    );
    const personalized = all.filter(({ zone }) => isPersonalized(zone));
    const [found, ...more] = personalized.length > 0 ? personalized : all;
    if (!found) throw new Refusal(`The page has no zone "${name}".`);
    if (more.length > 0) throw new Refusal(`The page has ${more.length + 1} zones "${name}". Choose the component of one of them.`);
    const edited = edit(found.zone);
    const replace = (zones: Record<string, Zone>) => mapZones(zones, (zone) => (zone === found.zone ? edited : zone));
    return { layout: { ...layout, zones: replace(layout.zones) } };
  } catch (error) {
    if (error instanceof Refusal) return { error: error.message };
    throw error;
  }
}

interface FoundZone {
  name: string;
  zone: Zone;
  nodeId: string | undefined;
}

/** Returns all zones of the page, those in all variants included. */
function zonesOf(zones: Record<string, Zone>, nodeId: string | undefined): FoundZone[] {
  return Object.entries(zones).flatMap(([name, zone]) => {
    const contents = isPersonalized(zone) ? contentsOf(zone).flatMap(([, nodes]) => nodes) : zone;
    return [{ name, zone, nodeId }, ...contents.flatMap((node) => zonesOf(node.zones ?? {}, node.id))];
  });
}

/** Replaces zones. `edit` gets each zone before the zones inside it, which are not visited if it returns another one. */
function mapZones(zones: Record<string, Zone>, edit: (zone: Zone) => Zone): Record<string, Zone> {
  const mapNodes = (nodes: LayoutNode[]) => nodes.map((node) => (node.zones ? { ...node, zones: mapZones(node.zones, edit) } : node));
  const mapZone = (zone: Zone): Zone => {
    const edited = edit(zone);
    if (edited !== zone) return edited;
    if (!isPersonalized(zone)) return mapNodes(zone);
    const variants = Object.entries(zone.variants).map(([key, nodes]) => [key, mapNodes(nodes)]);
    return { ...zone, default: mapNodes(zone.default), variants: Object.fromEntries(variants) };
  };
  return Object.fromEntries(Object.entries(zones).map(([name, zone]) => [name, mapZone(zone)]));
}

/** Returns the nodes with plain zones only. */
function plainCopy(nodes: LayoutNode[]): LayoutNode[] {
  const plainZones = (zones: Record<string, Zone>) =>
    Object.fromEntries(Object.entries(zones).map(([name, zone]) => [name, plainCopy(isPersonalized(zone) ? zone.default : zone)]));
  return nodes.map((node) => (node.zones ? { ...node, zones: plainZones(node.zones) } : node));
}
