// The lists of values with bars. A page without one does not load this module.
import { html } from './vendor/preact-htm.js';
import { count } from './core.js';
import { Change } from './parts.js';

// A list of values with bars. A row is { value, numbers, pair, text, note, isPressed }. With `onPick` a row is a button. With
// `isCompared` each row has the change between the numbers of its `pair`.
export function Bars({ label, unit, columns, rows, isCompared, onPick }) {
  const most = Math.max(1, ...rows.map((row) => row.numbers[0]));
  return html`
    <table class="bars" aria-label=${label}>
      <thead><tr><th scope="col">${unit}</th>${columns.map((name) => html`<th scope="col" class="number">${name}</th>`)}${isCompared && html`<th scope="col" class="number">Change</th>`}</tr></thead>
      <tbody>
        ${rows.map(
          (row) => html`
          <tr key=${row.value} class=${row.isPressed && 'pressed'}>
            <th scope="row">
              <${Bar} share=${row.numbers[0] / most} />
              <${BarLabel} row=${row} onPick=${row.isFixed ? undefined : onPick} />
            </th>
            ${row.numbers.map((number) => html`<td class="number">${count(number)}</td>`)}
            ${isCompared && html`<td class="number">${row.pair ? html`<${Change} ...${row.pair} />` : '–'}</td>`}
          </tr>
        `,
        )}
      </tbody>
    </table>
  `;
}

const Bar = ({ share }) => html`
  <svg class="bar" aria-hidden="true" viewBox="0 0 100 1" preserveAspectRatio="none"><rect width=${100 * share} height="1" /></svg>
`;

function BarLabel({ row, onPick }) {
  const text = row.text ?? row.value;
  const content = html`<bdi>${text}</bdi>${row.note && html` <span class="dim">${row.note}</span>`}`;
  if (!onPick) return html`<span class="bar-label" title=${text}>${content}</span>`;
  return html`<button type="button" class="bar-label" title=${text} aria-pressed=${!!row.isPressed} onClick=${() => onPick(row.value)}>${content}</button>`;
}
