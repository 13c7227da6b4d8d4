// Random numbers of the property tests. SEED in the environment repeats a run.
export const SEED = Number(process.env.SEED ?? Math.floor(Math.random() * 2 ** 32));
export const IS_LONG = process.env.PARALLAX_LONG === '1';

export interface Dice {
  /** Returns a whole number below `end`. */
  below(end: number): number;
  pick<T>(items: readonly T[]): T;
  chance(share: number): boolean;
}

/** Returns dice that give the same numbers for the same seed (mulberry32). */
export function diceOf(seed: number): Dice {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const below = (end: number) => Math.floor(next() * end);
  return { below, pick: (items) => items[below(items.length)]!, chance: (share) => next() < share };
}
