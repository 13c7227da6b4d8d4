// The comparisons of the arms of an experiment: their numbers, intervals and verdicts.
import { html } from './vendor/preact-htm.js';
import { amount, percent, signedPercent } from './core.js';
import { Pill } from './parts.js';

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
