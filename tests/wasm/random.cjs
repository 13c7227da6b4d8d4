// Random numbers from a seed, so that a failure can be repeated.
'use strict';

// Returns numbers from 0 to below 1 (mulberry32).
function randomOf(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let z = state;
    z = Math.imul(z ^ (z >>> 15), z | 1);
    z ^= z + Math.imul(z ^ (z >>> 7), z | 61);
    return ((z ^ (z >>> 14)) >>> 0) / 2 ** 32;
  };
}

class Dice {
  constructor(seed) {
    this.random = randomOf(seed);
  }

  below(n) {
    return Math.floor(this.random() * n);
  }

  is(share) {
    return this.random() < share;
  }

  one(list) {
    return list[this.below(list.length)];
  }

  some(list, share) {
    return list.filter(() => this.is(share));
  }
}

module.exports = { Dice };
