import type { Client } from '../client.js';

type Listener = () => Promise<void>;

const LISTENERS = Symbol.for('parallax.publications');

/** The listeners by tracking ID. Next.js loads a module once for the proxy and once for handlers, so they are global. */
function listeners(): Map<string, Listener> {
  return ((globalThis as { [LISTENERS]?: Map<string, Listener> })[LISTENERS] ??= new Map());
}

/** Calls a function at each call of the revalidation handler, in place of the function before: a site has one proxy. */
export function onPublication({ options }: Client<any>, listener: Listener): void {
  listeners().set(options.trackingId, listener);
}

/** Calls the listener of a site. */
export async function announcePublication({ options }: Client<any>): Promise<void> {
  await listeners().get(options.trackingId)?.();
}
