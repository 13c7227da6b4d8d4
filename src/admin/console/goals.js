// The goals of a site in words: conversions, rates and amounts.
import { html } from './vendor/preact-htm.js';
import { Empty, Select } from './parts.js';

// The largest number of goals in one question, that of the server.
export const GOALS_ASKED_MAX = 16;

// Returns the key of the goal that a page shows: the chosen one, or the first one with a value, or the first one. Undefined if
// the site has no goals.
export function chosenGoal(site, query) {
  const keys = site.goals.map(({ key }) => key);
  if (keys.includes(query.get('goal'))) return query.get('goal');
  return site.goals.find(({ value }) => value !== null)?.key ?? keys[0];
}

// A select of the goals of a site.
export const GoalSelect = ({ site, goal, onChange }) =>
  html`<${Select} label="Goal" isHidden=${false} value=${goal} options=${site.goals.map(({ key, name }) => [key, name])} onChange=${onChange} />`;

export const NoGoals = () => html`
  <${Empty}>The site has no goals. Write them as <code>goals</code> into <code>site.json</code>, and publish the site again.<//>
`;

// Returns whether the amounts of two periods can be compared: both are in one currency, the same one.
export function isOneCurrency(now, before) {
  const found = [...now.currencies, ...before.currencies].map(({ currency }) => currency);
  return new Set(found).size <= 1;
}
