// The experiments of a whole site. Zones with the same key share one experiment, so all its places change together.
import type { Json, JsonObject } from './json.js';
import { at, isObject } from './layout.js';
import { withValue, zonesOfSite } from './site-zones.js';

/** The members of an experiment beside its key. The program checks their values. */
export interface ExperimentSettings {
  variants: string[];
  weights?: number[];
  /** A share of the new visitors, or a ramp. Without it, all take part. */
  coverage?: number | { from: string; share: number }[];
  from?: string;
  to?: string;
  winner?: string;
  seed?: string;
  namespace?: [name: string, from: number, to: number];
  holdout?: number;
  goal?: string;
  value?: string;
  currency?: string;
  cap?: number | string;
  guardrails?: { goal: string; margin: number; lowerIsBetter?: boolean }[];
  planned?: number;
  window?: string;
  segments?: string[];
}

/** A rule with the experiment. */
export interface ExperimentPlace {
  file: string;
  /** The path of the page. */
  path: string;
  zone: string;
  /** The JSON pointer of the experiment in the file. */
  pointer: string;
  /** The condition of the rule. */
  when?: Json;
}

export interface SiteExperiment {
  key: string;
  /** The settings of the first place, and the metrics of the first place that has them. */
  settings: ExperimentSettings;
  places: ExperimentPlace[];
  /** The members that differ between places. The program refuses them, and `setExperiment` makes them equal. */
  conflicts: string[];
}

/** The error for an experiment that no place has. */
export class UnknownExperimentError extends Error {
  constructor(key: string) {
    super(`The site has no experiment "${key}".`);
    this.name = 'UnknownExperimentError';
  }
}

type Member = keyof ExperimentSettings;
/** The members that all places have alike, in the usual order. */
const DECIDING: Member[] = ['variants', 'weights', 'coverage', 'from', 'to', 'winner', 'seed', 'namespace', 'holdout'];
/** The members that one place is enough for. */
const METRICS: Member[] = ['goal', 'value', 'currency', 'cap', 'guardrails', 'planned', 'window', 'segments'];
const MEMBERS = [...DECIDING, ...METRICS];
/** The members whose change begins a phase, in which all visitors start again. */
const PHASE: Member[] = ['variants', 'weights', 'seed', 'holdout'];

interface Found extends ExperimentPlace {
  key: string;
  experiment: JsonObject;
}

/** Returns the experiments of the pages, in the order of the files. Parts of another form have none. */
export function experimentsOf(files: Record<string, Json>): SiteExperiment[] {
  const byKey = new Map<string, Found[]>();
  for (const found of findAll(files)) {
    const all = byKey.get(found.key);
    if (all) all.push(found);
    else byKey.set(found.key, [found]);
  }
  return [...byKey].map(([key, all]) => {
    const values = (member: Member) => all.map(({ experiment }) => experiment[member]);
    const first = (member: Member) => (METRICS.includes(member) ? values(member).find(isGiven) : values(member)[0]);
    const settings = MEMBERS.map((member) => [member, first(member)] as const).filter(([, value]) => isGiven(value));
    const differs = (member: Member) => values(member).some((value) => !agrees(member, value, first(member)));
    return {
      key,
      settings: Object.fromEntries(settings) as unknown as ExperimentSettings,
      places: all.map(({ key: _, experiment: __, ...place }) => place),
      conflicts: MEMBERS.filter(differs),
    };
  });
}

/** Returns whether the value of a place is valid beside the one of the experiment. */
function agrees(member: Member, value: Json | undefined, wanted: Json | undefined): boolean {
  if (METRICS.includes(member) && !isGiven(value)) return true;
  const given = (one: Json | undefined) => one ?? (member === 'coverage' ? 1 : null);
  return isSame(given(value), given(wanted));
}

const isGiven = (value: Json | undefined): value is Json => value !== undefined && value !== null;

/**
 * Changes an experiment in all its places. Returns the files that change. A member that is undefined is removed. The metrics stay in the
 * places that have them, and new ones go to the first place. The order of the members stays.
 *
 * @throws UnknownExperimentError if no page has the experiment.
 */
export function setExperiment(files: Record<string, Json>, key: string, settings: ExperimentSettings): Record<string, Json> {
  const places = findAll(files).filter((found) => found.key === key);
  if (places.length === 0) throw new UnknownExperimentError(key);
  const wanted = settings as unknown as Record<Member, Json | undefined>;
  const changed = new Map<string, Json>();
  for (const [index, { file, pointer, experiment }] of places.entries()) {
    let edited = experiment;
    for (const member of MEMBERS) {
      const isNewMetric = index === 0 && isGiven(wanted[member]) && !places.some((place) => isGiven(place.experiment[member]));
      if (agrees(member, edited[member], wanted[member]) && !isNewMetric) continue;
      edited = withMember(edited, member, wanted[member]);
    }
    if (edited !== experiment) changed.set(file, withValue(changed.get(file) ?? files[file]!, pointer, edited));
  }
  return Object.fromEntries(changed);
}

/** Returns the experiment with the member in its place, else after the members that are usually before it. */
function withMember(experiment: JsonObject, member: Member, value: Json | undefined): JsonObject {
  if (!isGiven(value)) return Object.fromEntries(Object.entries(experiment).filter(([name]) => name !== member));
  if (Object.hasOwn(experiment, member)) return { ...experiment, [member]: value };
  const before = ['key', ...MEMBERS.slice(0, MEMBERS.indexOf(member))];
  const entries = Object.entries(experiment);
  const place = entries.reduce((end, [name], index) => (before.includes(name) ? index + 1 : end), 0);
  return Object.fromEntries([...entries.slice(0, place), [member, value], ...entries.slice(place)]);
}

function findAll(files: Record<string, Json>): Found[] {
  return zonesOfSite(files).flatMap(({ file, path, zone, pointer, rules }) =>
    rules.flatMap((rule, index): Found[] => {
      if (!isObject(rule) || !isObject(rule.experiment) || typeof rule.experiment.key !== 'string') return [];
      const { experiment, when } = rule;
      const place = { file, path, zone, pointer: at(at(at(pointer, 'rules'), index), 'experiment'), ...(isGiven(when) && { when }) };
      return [{ ...place, key: rule.experiment.key, experiment: experiment as JsonObject }];
    }),
  );
}

/** The error for a zone that no page has with several versions. */
export class UnknownZoneError extends Error {
  constructor(file: string, zone: string) {
    super(`The page of ${file} has no zone "${zone}" with several versions.`);
    this.name = 'UnknownZoneError';
  }
}

/**
 * Adds an experiment to a zone, as its last rule. Returns the file that changes. If other zones have the experiment, the zone gets those
 * settings that all its zones have alike.
 *
 * @throws UnknownZoneError if the page has no such zone.
 */
export function addExperiment(
  files: Record<string, Json>,
  key: string,
  { file, zone }: Pick<ExperimentPlace, 'file' | 'zone'>,
  settings: ExperimentSettings,
): Record<string, Json> {
  const found = zonesOfSite(files).find((other) => other.file === file && other.zone === zone);
  if (!found) throw new UnknownZoneError(file, zone);
  const isShared = findAll(files).some((place) => place.key === key);
  const given = settings as unknown as Record<Member, Json | undefined>;
  const members = (isShared ? DECIDING : MEMBERS).filter((member) => isGiven(given[member]));
  const experiment = { key, ...Object.fromEntries(members.map((member) => [member, given[member]!])) };
  return { [file]: withValue(files[file]!, at(found.pointer, 'rules'), [...found.rules, { experiment }]) };
}

/**
 * Removes an experiment from all its zones, or from one. Returns the files that change. The metrics of a removed place move to another
 * one. The versions stay.
 *
 * @throws UnknownExperimentError if no page has the experiment.
 */
export function removeExperiment(files: Record<string, Json>, key: string, from?: Pick<ExperimentPlace, 'file' | 'zone'>): Record<string, Json> {
  const experiment = experimentsOf(files).find((other) => other.key === key);
  if (!experiment) throw new UnknownExperimentError(key);
  const changed: Record<string, Json> = {};
  const isOfKey = (rule: Json) => isObject(rule) && isObject(rule.experiment) && rule.experiment.key === key;
  for (const { file, zone, pointer, rules } of zonesOfSite(files)) {
    const isWanted = from === undefined || (from.file === file && from.zone === zone);
    if (!isWanted || !rules.some(isOfKey)) continue;
    changed[file] = withValue(changed[file] ?? files[file]!, at(pointer, 'rules'), rules.filter((rule) => !isOfKey(rule)));
  }
  const rest = { ...files, ...changed };
  const isLeft = findAll(rest).some((place) => place.key === key);
  return isLeft && experiment.conflicts.length === 0 ? { ...changed, ...setExperiment(rest, key, experiment.settings) } : changed;
}

export type Standing = 'not started' | 'running' | 'ended' | 'decided';

/** Returns whether an experiment runs at a time. Times that the program refuses do not count. */
export function standingOf({ from, to, winner }: ExperimentSettings, nowMs: number): Standing {
  const hasPassed = (time: string | undefined) => time !== undefined && Date.parse(time) <= nowMs;
  if (hasPassed(to)) return winner === undefined ? 'ended' : 'decided';
  return from !== undefined && Date.parse(from) > nowMs ? 'not started' : 'running';
}

// The changes, in words.

/** A change of an experiment. */
export interface ExperimentDifference {
  key: string;
  text: string;
  /** Whether the change begins a phase: visitors can move to another arm, and the result begins again. */
  beginsPhase: boolean;
}

const LABELS: Record<Member, string> = {
  variants: 'arms',
  weights: 'weights',
  coverage: 'new visitors that take part',
  from: 'begin',
  to: 'end',
  winner: 'winner',
  seed: 'seed',
  namespace: 'namespace',
  holdout: 'holdout',
  goal: 'goal',
  value: 'value',
  currency: 'currency',
  cap: 'cap',
  guardrails: 'guardrails',
  planned: 'planned visitors',
  window: 'window',
  segments: 'segments',
};

/** Returns the changes of the experiments between two versions of a site, one for each member that changes. */
export function differences(before: SiteExperiment[], after: SiteExperiment[]): ExperimentDifference[] {
  const keys = new Set([...before, ...after].map(({ key }) => key));
  return [...keys].flatMap((key) => {
    const old = before.find((experiment) => experiment.key === key);
    const now = after.find((experiment) => experiment.key === key);
    if (!old || !now) return [{ key, text: old ? 'the experiment is removed' : 'the experiment is new', beginsPhase: false }];
    return [...memberDifferences(old, now), ...placeDifferences(old, now)];
  });
}

function memberDifferences(old: SiteExperiment, now: SiteExperiment): ExperimentDifference[] {
  return MEMBERS.flatMap((member) => {
    const values = [old, now].map((experiment) => effective(experiment, member)) as [Json, Json];
    if (isSame(...values)) return [];
    const beginsPhase = PHASE.includes(member);
    const [from, to] = [valueWords(member, values[0], old), valueWords(member, values[1], now)];
    const phase = beginsPhase ? '. A new phase begins, and all visitors start again' : '';
    return [{ key: now.key, text: `${LABELS[member]}: ${from} → ${to}${phase}`, beginsPhase }];
  });
}

/** Returns the value of a member with its default. */
function effective({ key, settings }: SiteExperiment, member: Member): Json {
  const value = settings[member] as Json | undefined;
  if (isGiven(value)) return value;
  if (member === 'weights') return settings.variants.map(() => 1 / settings.variants.length);
  return ({ coverage: 1, holdout: 0, seed: key } as Partial<Record<Member, Json>>)[member] ?? null;
}

function placeDifferences(old: SiteExperiment, now: SiteExperiment): ExperimentDifference[] {
  const nameOf = ({ zone, path }: ExperimentPlace) => `zone ${zone} of ${path}`;
  const difference = (text: string) => ({ key: now.key, text, beginsPhase: false });
  const find = (places: ExperimentPlace[], place: ExperimentPlace) => places.find((other) => nameOf(other) === nameOf(place));
  const removed = old.places.filter((place) => !find(now.places, place)).map((place) => difference(`no longer in the ${nameOf(place)}`));
  const others = now.places.flatMap((place) => {
    const before = find(old.places, place);
    if (!before) return [difference(`also in the ${nameOf(place)}`)];
    return isSame(before.when ?? null, place.when ?? null) ? [] : [difference(`another condition in the ${nameOf(place)}`)];
  });
  return [...removed, ...others];
}

function valueWords(member: Member, value: Json, { settings }: SiteExperiment): string {
  if (value === null) return 'none';
  if (member === 'weights')
    return (value as Json[]).map((weight, index) => `${settings.variants[index] ?? '?'} ${percent(weight)}`).join(', ');
  if (member === 'holdout' || (member === 'coverage' && typeof value === 'number')) return percent(value);
  if (member === 'coverage')
    return (value as { from: string; share: number }[]).map(({ from, share }) => `${percent(share)} from ${from}`).join(', ');
  if (member === 'namespace') {
    const [name, from, to] = value as [string, number, number];
    return `${name} from ${percent(from)} to ${percent(to)}`;
  }
  if (member === 'guardrails') {
    const words = (value as JsonObject[]).map(
      ({ goal, margin, lowerIsBetter }) => `${String(goal)} (${percent(margin)}${lowerIsBetter ? ', lower is better' : ''})`,
    );
    return words.length > 0 ? words.join(', ') : 'none';
  }
  return Array.isArray(value) ? value.join(', ') || 'none' : String(value);
}

/** Returns a share in percent with at most two decimals. */
const percent = (share: Json | undefined) => (typeof share === 'number' ? `${Math.round(share * 1e4) / 100} %` : JSON.stringify(share));

/** Returns whether two values are equal. The order of members does not matter. */
function isSame(a: Json, b: Json): boolean {
  if (Array.isArray(a) && Array.isArray(b)) return a.length === b.length && a.every((item, index) => isSame(item, b[index]!));
  if (!isObject(a) || !isObject(b)) return a === b;
  const names = Object.keys(a);
  return names.length === Object.keys(b).length && names.every((name) => Object.hasOwn(b, name) && isSame(a[name]!, b[name]!));
}
