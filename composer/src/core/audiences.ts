// The audiences of a site, and the places that use them.
import type { Json } from './json.js';
import { at, isObject } from './layout.js';
import { zonesOfSite } from './site-zones.js';

/** A rule or an audience that names an audience. */
export interface AudienceUse {
  file: string;
  /** The rule or the audience in the file. */
  pointer: string;
  /** The zone of a rule and the path of its page, or the key of the audience. */
  place: { path: string; zone: string } | { audience: string };
}

/** Characters of a key. The program refuses more. */
const KEY_CHARS_MAX = 64;

/** Returns a key for a name: its letters and digits in lower case. No other thing has the key. */
export function keyFromName(name: string, fallback: string, isTaken: (key: string) => boolean): string {
  const plain = name.normalize('NFKD').replace(/\p{M}+/gu, '').toLowerCase();
  const key = plain.replace(/[^a-z0-9]+/g, '-').replace(/^-+/, '').slice(0, KEY_CHARS_MAX).replace(/-+$/, '') || fallback;
  for (let number = 1; ; number += 1) {
    const suffix = number === 1 ? '' : `-${number}`;
    const candidate = key.slice(0, KEY_CHARS_MAX - suffix.length) + suffix;
    if (!isTaken(candidate)) return candidate;
  }
}

/** Returns the rules of pages and the audiences that name each audience, in the order of the files. */
export function usesOfAudiences(files: Record<string, Json>): Map<string, AudienceUse[]> {
  const uses = new Map<string, AudienceUse[]>();
  const add = (names: Set<string>, use: AudienceUse) => names.forEach((name) => uses.set(name, [...(uses.get(name) ?? []), use]));
  for (const { file, path, zone, pointer, rules } of zonesOfSite(files)) {
    for (const [index, rule] of rules.entries()) {
      if (!isObject(rule)) continue;
      const names = namedAudiences(rule.when);
      if (typeof rule.audience === 'string') names.add(rule.audience);
      add(names, { file, pointer: at(at(pointer, 'rules'), index), place: { path, zone } });
    }
  }
  const audiences = files['audiences.json'];
  for (const [key, audience] of Object.entries(isObject(audiences) ? audiences : {})) {
    if (isObject(audience)) add(namedAudiences(audience.when), { file: 'audiences.json', pointer: at('', key), place: { audience: key } });
  }
  return uses;
}

/** Returns the audiences that a condition names. It needs no recursion, because nothing bounds the depth of a file. */
function namedAudiences(condition: Json | undefined): Set<string> {
  const names = new Set<string>();
  const rest: (Json | undefined)[] = [condition];
  while (rest.length > 0) {
    const value = rest.pop();
    if (Array.isArray(value)) value.forEach((item) => rest.push(item));
    else if (isObject(value)) {
      if (typeof value.$audience === 'string') names.add(value.$audience);
      Object.values(value).forEach((member) => rest.push(member));
    }
  }
  return names;
}
