import type { Json, Properties, Receipt } from './types.js';

export type Sent = Promise<Receipt | null>;

/** The members of an event. JSON leaves out those that are undefined. */
export type Members = Record<string, Json | undefined>;

/** The methods that send an event. Each resolves with the receipt, or with null when nothing was sent or the first attempt failed. */
export interface EventMethods {
  page(properties?: { path?: string; name?: string } & Properties): Sent;
  track(event: string, properties?: Properties): Sent;
  /** `userHash` is the result of the function `userHash`, which the site's server computes. */
  identify(userId: string, traits?: Properties, options?: { userHash?: string }): Sent;
  set(values: Properties): Sent;
  setOnce(values: Properties): Sent;
  unset(keys: string[]): Sent;
  increment(values: Record<string, number>): Sent;
  append(values: Properties): Sent;
  union(values: Record<string, Json[]>): Sent;
  remove(values: Record<string, Json[]>): Sent;
}

/** The profile operations, in the order of `interface.md` section 10. */
const OPERATIONS = ['set', 'setOnce', 'unset', 'increment', 'append', 'union', 'remove'] as const;

/** Makes the methods from a function that sends the members of one event. */
export function eventMethods(send: (type: string, members: Members, userHash?: string) => Sent): EventMethods {
  const operations = OPERATIONS.map((name) => [name, (values: Json) => send('profile', { [name]: values })]);
  return {
    page: ({ name, ...properties }: Properties = {}) => send('page', { name, properties }),
    track: (event: string, properties?: Properties) => send('track', { event, properties }),
    identify: (userId: string, traits?: Properties, options?: { userHash?: string }) =>
      send('identify', { userId, traits }, options?.userHash),
    ...Object.fromEntries(operations),
  } as EventMethods;
}
