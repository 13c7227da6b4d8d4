// Comparisons of an answer with another range: the compared numbers and their changes in words.
import { html } from './vendor/preact-htm.js';
import { clockTime, count, day, daysBetween, relativeChange } from './core.js';
import { Change } from './parts.js';

// The largest limit of a compared list in the API.
const COMPARED_LINES = 3000;
// The largest limit of the API, and the rows of a CSV.
const LINES = 10_000;

// Returns the number of rows of a CSV.
export const mostLines = ({ compare }) => (!compare || compare === 'none' ? LINES : COMPARED_LINES);

// Returns both numbers of a change, or undefined if there is none. A running range is compared up to its last full hour, in `elapsed`.
// `of` returns the number of one range of the answer, or null. If the whole range has another number, `isPart` is true.
export function pairOf(data, of) {
  if (!data?.compared) return undefined;
  const now = of(data.elapsed ?? data);
  const pair = { now, before: of(data.compared), isPart: !!data.elapsed && of(data) !== now };
  return [now, pair.before].some((value) => value === null || value === undefined) ? undefined : pair;
}

// Returns the numbers of a change without a colour.
export const plain = (pair) => pair && { ...pair, isPlain: true };

// Finds a row of a list that may end before the row. An absent row has the number 0 if the list has all rows, else null.
export function numberIn(rows, more, isRow, of) {
  const row = rows?.find(isRow);
  if (row) return of(row);
  return rows && more === 0 ? 0 : null;
}

// Shows a number with its change. `words` writes the earlier number.
export const withChange = (text, pair, words = count) => html`${text}${pair && html`<${Change} ...${pair} words=${words} />`}`;

// The period before ends where the range begins, and only such a one has an elapsed part.
const isPrevious = ({ from, elapsed, compared }) => !!elapsed || compared.to === from;
const rangeInWords = (data) => (isPrevious(data) ? 'the period before' : 'the range compared');

// Compares two numbers in words, such as "3.0 % more than in the period before".
export function comparedInWords({ now, before }, range = 'the period before') {
  if (!before) return now ? `none in ${range}` : `as in ${range}`;
  const { text, direction } = relativeChange(now, before);
  if (direction === 0) return `as many as in ${range}`;
  return `${text.slice(1)} ${direction > 0 ? 'more' : 'fewer'} than in ${range}`;
}

// Returns the end of a sentence about a number: ", 3.0 % more than in the period before". Empty without a comparison.
export function changeInWords(data, of) {
  const pair = pairOf(data, of);
  if (!pair) return '';
  const until = pair.isPart ? `up to ${clockTime(data.elapsed.to, data.timeZone)} ` : '';
  return `, ${until}${comparedInWords(pair, rangeInWords(data))}`;
}

// Returns the end of a sentence about a share: ", 12.0 % in the period before".
export function shareInWords(data, of, words) {
  const pair = pairOf(data, of);
  return pair ? `, ${words(pair.before)} in ${rangeInWords(data)}` : '';
}

const timeInWords = (time, timeZone) => `${day(time, timeZone)}, ${clockTime(time, timeZone)}`;

// Names the compared range. One that does not begin at midnight is named with its times.
export function Against({ data: { compared, elapsed }, timeZone }) {
  if (compared === undefined) return null;
  if (compared === null) return html`<p class="dim small lead">No full hour of this range is over, so it is not compared.</p>`;
  const { from, to } = compared;
  const isOfDays = clockTime(from, timeZone) === '00:00';
  const words = isOfDays ? daysBetween(from, Date.parse(to) - 1, timeZone) : `${timeInWords(from, timeZone)} to ${timeInWords(to, timeZone)}`;
  return html`<p class="dim small lead">The changes are against ${words}${elapsed && `, both up to ${clockTime(elapsed.to, timeZone)} on the last day`}.</p>`;
}
