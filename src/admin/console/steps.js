// The steps of a journey: goals, events and pages, in words and as choices.
import { url, useAnswer } from './core.js';

// The most seen pages and events that a page offers.
const OFFERED = 12;

// Returns a step in words: the name of a goal, the path of a page, or the name of an event.
export function stepInWords(step, goals) {
  const goal = goals.find(({ key }) => key === step);
  return goal ? goal.name : step.replace(/^(page|event):/, '');
}

// Returns the choices of a site as groups of [step, text].
export function useSteps(site, range) {
  return [
    { name: 'Goals', steps: site.goals.map(({ key, name }) => [key, name]) },
    { name: 'Events', steps: useValues(site, range, { of: 'event', by: 'events' }).map((value) => [`event:${value}`, value]) },
    { name: 'Pages', steps: usePages(site, range).map((value) => [`page:${value}`, value]) },
  ];
}

// Returns the most seen paths.
export const usePages = (site, range) => useValues(site, range, { of: 'page', by: 'views' });

// Returns the first values of a list. `by` names the number that a value must have.
function useValues(site, range, { of, by }) {
  const { data } = useAnswer(url('insights/top', { site: site.site, ...range, limit: OFFERED, of }));
  const rows = (data?.rows ?? []).filter((row) => row[by] > 0 && row.value !== null && row.value !== '(other)');
  return rows.map(({ value }) => value);
}

const UNITS = [
  [86_400_000, 'd'],
  [3_600_000, 'h'],
  [60_000, 'min'],
];

// Writes a time with its largest unit, such as "1.8 min".
export function duration(ms) {
  if (ms === null || ms === undefined) return '–';
  const [size, unit] = UNITS.find(([size]) => ms >= size) ?? [1000, 's'];
  return `${Number((ms / size).toFixed(1))} ${unit}`;
}
