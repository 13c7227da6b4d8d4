/** Reports the end of a call: true for a response, false for a failure. */
export type Report = (isOk: boolean) => void;

/** A circuit breaker. After `failuresMax` failures in a row no call passes for a time, and then one call as a probe. */
export interface Breaker {
  /** Returns the function that reports the end of the call, or null while no call passes. */
  enter(): Report | null;
}

/** `openMs` are the least and the greatest time without calls. A random time keeps many servers from probing together. */
export function createBreaker(failuresMax = 3, openMs: readonly [number, number] = [2000, 3000]): Breaker {
  let failures = 0;
  let opensAt = 0;
  let probe: Report | null = null;

  function enter(): Report | null {
    const isOpen = failures >= failuresMax;
    if (isOpen && (probe || Date.now() < opensAt)) return null;
    const report: Report = (isOk) => {
      if (failures >= failuresMax && probe !== report) return; // a call that began before the breaker opened
      probe = null;
      failures = isOk ? 0 : failures + 1;
      opensAt = Date.now() + openMs[0] + Math.random() * (openMs[1] - openMs[0]);
    };
    if (isOpen) probe = report;
    return report;
  }
  return { enter };
}
