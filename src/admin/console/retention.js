// Retention: the visitors that return in the days or weeks after their first event.
import { html } from './vendor/preact-htm.js';
import { Against, changeInWords, pairOf, shareInWords, withChange } from './compare.js';
import { change, count, counted, day, download, percent, url, useAnswer } from './core.js';
import { questionOf } from './lists.js';
import { Answer, Card, Empty, Footer, Scroll, Select } from './parts.js';
import { stepInWords, useSteps } from './steps.js';

const PERIODS = [
  ['week', 'By week'],
  ['day', 'By day'],
];
const ANY = ['', 'Any event'];

// Columns of the table. Of a longer range, the CSV has all.
const PERIODS_MAX = 30;
// Steps of the colour scale, which ends at this share.
const HEATS = 6;
const HOTTEST = 0.6;

export function Retention({ site, query, range }) {
  const by = query.get('by') === 'day' ? 'day' : 'week';
  const question = { ...questionOf(site, query, range), by, begin: query.get('begin'), return: query.get('return') };
  const address = url('insights/retention', question);
  const answer = useAnswer(address);
  const groups = useSteps(site, range);
  const select = (name, label) => html`<${StepSelect} ...${{ name, label, groups, site }} value=${query.get(name) ?? ''} />`;
  const { data, error } = answer;
  return html`
    ${data && !error && html`<p class="sentence"><${Sentence} data=${data} /></p>`}
    <div class="row bottom">
      ${select('begin', 'First event')}
      ${select('return', 'Returning event')}
      <${Select} label="Periods" isHidden=${false} value=${by} options=${PERIODS} onChange=${(value) => change({ by: value })} />
    </div>
    <${Card} title="New visitors who returned" wide>
      <${Answer} of=${answer}>
        ${(data) => html`
          <${Against} data=${data} timeZone=${site.timeZone} />
          ${data.cohorts.every(({ visitors }) => visitors === 0) ? html`<${Empty}>No new visitors in this range.<//>` : html`<${HeatMap} data=${data} timeZone=${site.timeZone} />`}
          <${Footer} data=${data} csv=${() => download(address, `retention-${site.site}.csv`, 'text/csv')} />
        `}
      <//>
    <//>
  `;
}

// The text of an option is that of a step alone, because an option cannot isolate the texts of strangers in it.
function StepSelect({ name, label, groups, site, value }) {
  const isOffered = value === '' || groups.some(({ steps }) => steps.some(([step]) => step === value));
  const option = ([step, text]) => html`<option key=${step} value=${step} selected=${step === value}>${text}</option>`;
  return html`
    <label class="field">
      <span class="field-label">${label}</span>
      <select onChange=${(event) => change({ [name]: event.currentTarget.value || null })}>
        ${option(ANY)}
        ${!isOffered && option([value, stepInWords(value, site.goals)])}
        ${groups.map((group) => group.steps.length > 0 && html`<optgroup key=${group.name} label=${group.name}>${group.steps.map(option)}</optgroup>`)}
      </select>
    </label>
  `;
}

// Names the share of the first period after the first one that is over.
const newVisitors = ({ cohorts }) => cohorts.reduce((total, { visitors }) => total + visitors, 0);
const pointOf = ({ curve }, period) => curve.find((one) => one.period === period);

function Sentence({ data }) {
  const { by } = data;
  const visitors = newVisitors(data);
  const next = pointOf(data, 1);
  const begin = `${counted(visitors, 'new visitor')}${changeInWords(data, newVisitors)}.`;
  if (visitors === 0) return 'No new visitors in this range.';
  if (!next) return `${begin} No ${by} after their first one is over.`;
  return `${begin} Of the ${count(next.visitors)} whose ${by} after their first one is over, ${percent(next.share)} returned in it${shareInWords(data, (one) => pointOf(one, 1)?.share, percent)}.`;
}

const heat = (share) => `heat-${Math.min(HEATS - 1, Math.floor((share / HOTTEST) * HEATS))}`;

// A period that is not over can only grow. The curve has a point for each period of the range that is over.
function HeatMap({ data, timeZone }) {
  const { by } = data;
  const periods = Math.min(PERIODS_MAX, Math.max(...data.cohorts.map(({ returned }) => returned.length)));
  const names = Array.from({ length: periods }, (_, period) =>
    period === 0 ? `Same ${by}` : `${by === 'day' ? 'Day' : 'Week'} ${period}`,
  );
  const isRunning = (cohort, period) => cohort + period >= data.curve.length;
  const cell = (visitors, returned, isOpen) => {
    if (returned === undefined || visitors === 0) return html`<td></td>`;
    return html`<td class=${heat(returned / visitors)}><div>${percent(returned / visitors, 0)}${isOpen && html`<span aria-hidden="true"> *</span><span class="hidden"> so far</span>`}</div><div class="small">${count(returned)}</div></td>`;
  };
  const cells = (of) => names.map((_, period) => of(period));
  const all = (period) => pointOf(data, period);
  const { compared } = data;
  return html`
    <${Scroll} label="New visitors who returned, table">
      <table class="heat" aria-label="New visitors who returned">
        <thead><tr><th scope="col">First ${by}</th><th scope="col" class="number">New visitors</th>${names.map((name) => html`<th scope="col">${name}</th>`)}</tr></thead>
        <tbody>
          <tr><th scope="row"><b>All</b></th><td class="number">${withChange(count(newVisitors(data)), pairOf(data, newVisitors))}</td>${cells((period) => cell(all(period)?.visitors ?? 0, all(period)?.returned))}</tr>
          ${compared && html`<tr><th scope="row"><b>All, compared</b></th><td class="number">${count(newVisitors(compared))}</td>${cells((period) => cell(pointOf(compared, period)?.visitors ?? 0, pointOf(compared, period)?.returned))}</tr>`}
          ${data.cohorts.map(
            ({ t, visitors, returned }, cohort) => html`
            <tr key=${t}><th scope="row">${day(t * 1000, timeZone)}</th><td class="number">${count(visitors)}</td>${cells((period) => cell(visitors, returned[period], isRunning(cohort, period)))}</tr>
          `,
          )}
        </tbody>
      </table>
    <//>
    <p class="dim small more">
      * The ${by} is not over. Row “All” counts only ${by}s that are over.
      ${data.cohorts.some(({ returned }) => returned.length > PERIODS_MAX) && ` The table ends after ${PERIODS_MAX} columns. The CSV has all.`}
    </p>
  `;
}
