import type { Client } from './client.js';
import { PAIRS_MAX, SEGMENT_BYTES_MAX } from './limits.js';
import type { RequestOptions } from './types.js';

const PAIR = /^[A-Za-z0-9_-]{1,64}:[A-Za-z0-9_-]{1,64}$/;

/**
 * Encodes a combination as segments of a path: `:` becomes `!`, `,` becomes `~`, and the baseline is `-`. Without a dot, because
 * Next.js takes a segment with a dot for a file. A segment that ends with `~` is continued by the next one.
 */
export function toSegments(variants: string): string[] {
  if (variants.length < SEGMENT_BYTES_MAX) return [variants.replaceAll(':', '!').replaceAll(',', '~') || '-'];
  const segments: string[] = [];
  let current = '';
  for (const pair of variants === '' ? [] : variants.split(',')) {
    const text = pair.replace(':', '!');
    if (current && current.length + text.length + 2 > SEGMENT_BYTES_MAX) {
      segments.push(`${current}~`);
      current = '';
    }
    current += (current && '~') + text;
  }
  return [...segments, current || '-'];
}

/** Returns the combination and the path of segments that begin with those of `toSegments`. */
export function fromSegments(segments: readonly string[]): { variants: string; path: string } {
  let last = 0;
  while (segments[last]?.endsWith('~')) last++;
  const text = segments.slice(0, last + 1).join('');
  const variants = text === '-' ? '' : text.replaceAll('~', ',').replaceAll('!', ':');
  return { variants, path: `/${segments.slice(last + 1).map(decodeOnce).join('/')}` };
}

/** Decodes a segment of a path. One with an invalid escape stays as written. */
export function decodeOnce(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

/** Returns a text that has the grammar of `variants`, else the baseline. */
export function wellFormed(variants: string | null | undefined): string {
  const pairs = variants ? variants.split(',') : [];
  const zones = new Set(pairs.map((pair) => pair.split(':')[0]));
  const isWellFormed = pairs.length <= PAIRS_MAX && zones.size === pairs.length && pairs.every((pair) => PAIR.test(pair));
  return isWellFormed ? pairs.join(',') : '';
}

/** A page that can be rendered ahead: a concrete path and one of its combinations. */
export interface StaticCombination {
  path: string;
  variants: string;
}

/** Returns the pages to render ahead. A pattern without concrete paths has none: its pages are rendered on demand. */
export async function staticCombinations(client: Client<any>, request?: RequestOptions): Promise<StaticCombination[]> {
  const { routes } = await client.routes({ include: 'variants' }, request);
  const concrete = routes.filter((route) => !route.pattern);
  return concrete.flatMap(({ path, variants = [''] }) => variants.map((text) => ({ path, variants: text })));
}
