// The comparisons of the arms of an experiment: their numbers, intervals and verdicts, and those of each segment.
import { html } from './vendor/preact-htm.js';
import { amount, count, counted, named, percent, signedPercent, toggleFilter, writtenPercent } from './core.js';
import { Card, Pill, Scroll, Stranger, Table } from './parts.js';

const VERDICTS = {
  better: ['good', 'better'],
  no_worse: ['good', 'no worse'],
  worse: ['bad', 'worse'],
  harmed: ['bad', 'harmed'],
  not_told_apart: ['neutral', 'not told apart'],
  too_early: ['neutral', 'too early'],
};

const EARLY = {
  visitors: 'fewer than 100 visitors',
  conversions: 'fewer than 10 that reached the goal',
  buyers: 'fewer than 30 with an amount',
  spread: 'the amounts differ too much for their number',
  non_conversions: 'fewer than 10 that did not',
  baseline: 'the baseline may still be 0',
};

// One row for each metric and compared arm.
export const rowsOf = (metrics) =>
  metrics.flatMap((metric) => {
    const compared = metric.against.map(({ key }) => key);
    const baseline = metric.arms.find(({ key }) => !compared.includes(key));
    return metric.against.map((against) => ({ metric, baseline, against, arm: metric.arms.find(({ key }) => key === against.key) }));
  });

// All intervals share one scale, so that their widths can be compared.
export function scaleOf(rows) {
  const ends = rows.flatMap(({ against, metric }) => [against.low, against.high, against.estimate, metric.margin && -metric.margin]);
  const most = Math.max(0.02, ...ends.filter((end) => typeof end === 'number').map(Math.abs));
  return Math.min(most * 1.1, 2);
}

// The mean of nobody is null.
const meanOf = (metric, arm) => (metric.kind === 'proportion' ? percent(arm?.mean, 2) : amount(arm?.mean));

const boundsInWords = ({ low, high }) => `${signedPercent(low)} to ${signedPercent(high)}`;

export function intervalInWords({ low, high, estimate }) {
  return low === null
    ? 'no interval yet'
    : `${boundsInWords({ low, high })}, estimate ${estimate === null ? 'unknown' : signedPercent(estimate)}`;
}

// At 0.5 times the variance, as many visitors tell as much as two times as many without CUPED.
function Cuped({ varianceRatio, unadjusted }) {
  const times = (1 / varianceRatio).toFixed(2);
  if (times === '1.00') return html`<div class="dim small">CUPED: no effect</div>`;
  return html`
    <div class="dim small">CUPED: as if ${times} times the visitors</div>
    ${unadjusted.low !== null && html`<div class="dim small">without it: ${boundsInWords(unadjusted)}</div>`}
  `;
}

// The half width of the picture stands for `scale`.
function Interval({ row: { against, metric }, scale }) {
  if (against.low === null) return html`<span class="dim small">${intervalInWords(against)}</span>`;
  const x = (change) => 100 + (100 * Math.max(-scale, Math.min(scale, change))) / scale;
  const margin = metric.margin && (metric.lowerIsBetter ? metric.margin : -metric.margin);
  return html`
    <svg class="interval" viewBox="0 0 200 24" role="img" aria-label=${intervalInWords(against)}>
      <line class="zero" x1="100" x2="100" y1="1" y2="23" />
      ${margin && html`<line class="margin" x1=${x(margin)} x2=${x(margin)} y1="1" y2="23" />`}
      <rect x=${x(against.low)} width=${Math.max(2, x(against.high) - x(against.low))} y="8" height="8" rx="4" />
      ${against.estimate !== null && html`<line class="tick" x1=${x(against.estimate)} x2=${x(against.estimate)} y1="4" y2="20" />`}
    </svg>
    <div class="dim small">${boundsInWords(against)}</div>
    ${against.cuped && html`<${Cuped} ...${against.cuped} />`}
  `;
}

function Verdict({ row: { metric, against, baseline } }) {
  const [tone, words] = VERDICTS[against.verdict] ?? ['neutral', against.verdict ?? 'none'];
  const early = metric.tooEarly.filter(({ arm }) => arm === against.key || arm === baseline?.key);
  return html`
    <${Pill} tone=${tone}>${words}<//>
    ${early.map(({ arm, reason }) => html`<div key=${`${arm} ${reason}`} class="dim small"><bdi>${arm}</bdi>: ${EARLY[reason] ?? reason}</div>`)}
  `;
}

// The columns of a table whose rows are those of `rowsOf`.
export const comparedColumns = (scale) => [
  {
    name: 'Baseline',
    isNumber: true,
    of: ({ metric, baseline }) => html`${meanOf(metric, baseline)}<div class="dim small"><bdi>${baseline?.key}</bdi></div>`,
  },
  {
    name: 'Arm',
    isNumber: true,
    of: ({ metric, arm }) => html`${meanOf(metric, arm)}<div class="dim small"><bdi>${arm?.key}</bdi></div>`,
  },
  {
    name: 'Change',
    isNumber: true,
    of: ({ against }) =>
      against.estimate === null ? html`<span class="dim">no data</span>` : html`<b>${signedPercent(against.estimate)}</b>`,
  },
  { name: 'Interval', of: (row) => html`<${Interval} row=${row} scale=${scale} />` },
  { name: 'Verdict', of: (row) => html`<${Verdict} row=${row} />` },
];

// The properties of visitors, by their names in the API.
const TITLES = { device: 'Device', country: 'Country', source: 'Source', language: 'Language', new: 'New or returning' };

// Returns the segments of a dimension with their names. The last one can have all values that are not listed.
const segmentsOf = ({ segment, values, others }) => [
  ...values.map((one) => ({ ...one, name: one.value === null ? '(unknown)' : named(segment, one.value) })),
  ...(others ? [{ ...others, name: counted(others.values, 'other') }] : []),
];

const isGoal = ({ role }) => role === 'goal';

// One row for each segment and compared arm. The goal of a segment lacks members of the goal of all visitors, such as its kind.
const rowsOfDimension = (dimension, goal) =>
  segmentsOf(dimension).flatMap(({ name, exposed, metrics }) =>
    rowsOf([{ ...goal, ...metrics.find(isGoal) }]).map(({ against, ...row }) => ({
      ...row,
      name,
      exposed,
      against: { ...against, cuped: null },
    })),
  );

export function Segments({ data, choice, query }) {
  const goal = data.metrics.find(isGoal);
  if (!goal) return null;
  const tables = data.segments.map((dimension) => ({ title: TITLES[dimension.segment], rows: rowsOfDimension(dimension, goal) }));
  const columns = [
    { name: 'Value', isHead: true, of: ({ name }) => html`<${Stranger} text=${name} />` },
    { name: 'Visitors', isNumber: true, of: ({ exposed }) => count(exposed) },
    ...comparedColumns(scaleOf(tables.flatMap(({ rows }) => rows))),
  ];
  return html`
    <${Card} title="By segment" wide>
      <${Meaning} ...${{ data, goal, choice }} />
      <${Choice} segments=${data.segments} chosen=${query.getAll('segment')} />
      ${tables.map(({ title, rows }) => rows.length > 0 && html`<${Scroll} key=${title} isWhole label=${`Segments: ${title}`}><${Table} stacks hasCaption label=${title} columns=${columns} rows=${rows} /><//>`)}
    <//>
  `;
}

function Meaning({ data, goal, choice }) {
  if (data.segments.length === 0)
    return html`<p class="dim small">Choose a property. Visitors are divided by its value at their first exposure.</p>`;
  // The server gives a verdict to each comparison that it adjusts, and to no other.
  const against = data.segments.flatMap(segmentsOf).flatMap(({ metrics }) => metrics.flatMap((metric) => metric.against));
  const adjusted = against.filter(({ verdict }) => verdict).length;
  return html`
    <p class="small">
      ${
        adjusted
          ? `Comparisons that are adjusted together: ${count(adjusted)}. At most ${writtenPercent(choice.alpha)} of the verdicts “better” and “worse” are expected to be false.`
          : 'No segment has a verdict.'
      }
      ${choice.isFixed && ' With method=fixed, nothing bounds the share of the false ones.'}
      ${data.decision && ` A verdict in a segment is not the decision of the experiment${data.decision.action === 'go_on' ? ', which is to go on' : ''}.`}
    </p>
    <p class="dim small">
      Visitors are divided by their values at the first exposure. The change is that of the goal <bdi>${goal.goal}</bdi>.
      Each interval is of its comparison alone, so one without 0 can be “not told apart”.
      ${data.metrics.length > 1 && ' The CSV has the other metrics.'}
    </p>
  `;
}

// A published dimension is always in the answer.
const Choice = ({ segments, chosen }) => html`
  <fieldset>
    <legend class="field-label">Divide the visitors by</legend>
    ${Object.entries(TITLES).map(([name, title]) => {
      const isPublished = segments.some(({ segment, published }) => published && segment === name);
      return html`
        <label key=${name}>
          <input type="checkbox" checked=${isPublished || chosen.includes(name)} disabled=${isPublished} onChange=${() => toggleFilter('segment', name)} />
          ${title}${isPublished && html` <span class="dim small">published</span>`}
        </label>
      `;
    })}
  </fieldset>
`;
