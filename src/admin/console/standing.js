// The standing of an experiment in words: its alarms, its state and its schedule.
import { html } from './vendor/preact-htm.js';
import { clockTime, counted, day, writtenPercent } from './core.js';
import { Pill } from './parts.js';

export const ALARMS = {
  srm: 'The visitors are not split as the weights say, so one arm loses visitors. Look at each arm in a browser, repair it, and begin again with a new key.',
  both_arms: 'More than 1 % of the visitors saw two arms. Let all hosts of the site share the cookie of the ID, and change weights only with a new key.',
  zero_weight: 'More than 1 % of the visitors saw an arm that this experiment does not have. Purge the caches of its pages, or look for forged events in the export.',
  phase_changed: 'Arms, weights, seed or holdout changed in this time. Count the visitors since the begin of the phase, under Details.',
  arm_error: 'One arm has more than its share of the visitors with an error. Repair it, and begin again with a new key.',
  mixed_currencies: 'The values have several currencies, which are never added up. Add one to the URL of the result, such as &currency=EUR, or give the goal a property of one.',
  enrolment_stalled: 'No visitor saw an arm for 24 hours, while pages were viewed. Check that the page sends its experiments, and that no other rule comes before this one.',
};

// The key of the holdout of the site. No experiment can have it.
export const HOLDOUT = '~';
export const HOLDOUT_TITLE = 'All experiments together';
export const GROUPS = { '~': 'held out', on: 'everyone else' };

export const moment = (time, { timeZone }) => `${day(time, timeZone)}, ${clockTime(time, timeZone)}`;

export const isOver = (standing) => standing === 'ended' || standing === 'decided';

// Says when an experiment begins and ends, and what everyone gets then. `of` has its from, to and winner.
export function Schedule({ standing, of: { from, to, winner }, site }) {
  const verbs = isOver(standing) ? ['Started', 'Ended', 'Everyone gets'] : [standing === 'running' ? 'Started' : 'Starts', 'Ends', 'Then everyone gets'];
  return html`
    ${from && `${verbs[0]} on ${moment(from, site)}. `}
    ${to && `${verbs[1]} on ${moment(to, site)}. `}
    ${winner && html`${verbs[2]} <bdi>${winner}</bdi>.`}
  `;
}

export const armsInWords = (arms) => (arms ?? []).map(({ key, weight }) => `${key} ${writtenPercent(weight)}`).join(', ');

export const State = ({ alarms = [], state }) =>
  alarms.length > 0 ? html`<${Pill} tone="bad">${counted(alarms.length, 'alarm')}<//>` : html`<${Pill} tone=${state === 'running' ? 'good' : 'neutral'}><bdi>${state}</bdi><//>`;

export function stateOf({ standing, winner, coverage, lastExposure }) {
  if (standing === 'decided') return `decided: ${winner}`;
  if (standing !== 'running') return standing?.replace('_', ' ') ?? 'not published';
  if (coverage === 0) return 'paused';
  return lastExposure ? 'running' : 'no exposure yet';
}
