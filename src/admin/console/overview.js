// Overview: how many came, what they looked at, where they came from, and how many are here now.
import { html } from './vendor/preact-htm.js';
import { POLL_MS, change, count, daysBetween, download, percent, toggleFilter, url, useAnswer } from './core.js';
import { TOPS, TOP_ROWS, Top, questionOf } from './lists.js';
import { Answer, Card, Chart, Footer, Select, Tile } from './parts.js';

const HOUR_MS = 3_600_000;
const STEPS = [
  ['hour', 'By hour'],
  ['day', 'By day'],
  ['week', 'By week'],
  ['month', 'By month'],
];

// Hours up to two days, days up to a quarter, else weeks.
function bucketOf(query, range) {
  if (query.has('by')) return query.get('by');
  const hours = (Date.parse(range.to) - Date.parse(range.from)) / HOUR_MS;
  if (hours <= 48) return 'hour';
  return hours <= 24 * 100 ? 'day' : 'week';
}

// One request asks for all numbers of the range.
export function Overview({ site, query, range }) {
  const question = questionOf(site, query, range);
  const by = bucketOf(query, range);
  const address = url('insights/overview', { ...question, by, of: TOPS.map(({ of }) => of), limit: TOP_ROWS });
  const answer = useAnswer(address);
  const csv = () => download(address, `overview-${site.site}.csv`, 'text/csv');
  return html`
    <${Live} question=${question} />
    <${Answer} of=${answer}>
      ${(data) => html`
        <${Totals} data=${data} site=${site} by=${by} csv=${csv} />
        <p class="dim lead small">Choose a row to filter all numbers of this page by it.</p>
        <div class="cards">${TOPS.map((top, at) => html`<${Card} key=${top.of} title=${top.title}><${Top} ...${top} data=${data.lists[at]} query=${query} /><//>`)}</div>
      `}
    <//>
  `;
}

const TILES = [
  ['visitors', 'Visitors'],
  ['visits', 'Visits'],
  ['views', 'Page views'],
  ['events', 'Events'],
  ['personalized', 'Saw a variant'],
];

// The range of a running day ends at midnight, and its hours to come have no numbers.
function pastOf(series) {
  const past = series.t.filter((t) => t * 1000 <= Date.now()).length;
  return Object.fromEntries(Object.entries(series).map(([name, values]) => [name, values.slice(0, past)]));
}

function Totals({ data, site, by, csv }) {
  const { totals, comparison } = data;
  const series = pastOf(data.series);
  const isRunning = Date.parse(data.to) > Date.now();
  const lines = [
    { name: 'Visitors', values: series.visitors },
    { name: 'Page views', values: series.views },
  ];
  const shareOf = (key) =>
    key === 'personalized' && totals.visitors > 0 ? `${percent(totals.personalized / totals.visitors)} of visitors` : undefined;
  return html`
    <div class="tiles">
      ${TILES.map(
        ([key, label]) => html`
        <${Tile} key=${key} label=${label} value=${totals[key]} note=${shareOf(key)}
          change=${comparison && { now: comparison.totals[key], before: comparison.before.totals[key] }} />
      `,
      )}
    </div>
    ${comparison && html`<p class="dim small lead">The changes are against ${daysBetween(comparison.before.from, Date.parse(comparison.before.to) - 1, site.timeZone)}.</p>`}
    <${Card} title="Visitors and page views" wide
      actions=${html`<${Select} label="Time step" value=${by} options=${STEPS} onChange=${(step) => change({ by: step })} />`}>
      <${Chart} key=${by} isFilled label="Visitors and page views" t=${series.t} series=${lines} by=${by} timeZone=${site.timeZone} isRunning=${isRunning} />
    <//>
    <${Footer} data=${data} csv=${csv} />
  `;
}

function Live({ question }) {
  const answer = useAnswer(url('insights/live', { ...question, from: null, to: null, limit: 3 }), { every: POLL_MS });
  const live = answer.data;
  const words = answer.error?.message;
  if (!live) return html`<div class="live dim">${words ? html`<span class="dot" aria-hidden="true"></span> ${words}` : 'Loading …'}</div>`;
  return html`
    <section class="live" aria-label="Now">
      <span class=${live.visitors > 0 && !words ? 'dot on' : 'dot'} aria-hidden="true"></span>
      ${words && html`<span class="dim">${words}</span>`}
      <span><b>${count(live.visitors)}</b> ${live.visitors === 1 ? 'visitor' : 'visitors'} in the last 30 minutes</span>
      <${Minutes} values=${live.series.visitors} />
      <span class="live-pages">
        ${live.pages.map(
          ({ value, visitors }) => html`
          <button key=${value} type="button" class="quiet" onClick=${() => toggleFilter('page', value)}><bdi>${value}</bdi> <b>${count(visitors)}</b></button>
        `,
        )}
      </span>
    </section>
  `;
}

// One bar for each minute. The number beside it is its text.
function Minutes({ values }) {
  const most = Math.max(1, ...values);
  return html`
    <svg class="minutes" viewBox=${`0 0 ${values.length * 4} 20`} aria-hidden="true">
      ${values.map((value, at) => html`<rect x=${at * 4} width="3" y=${20 - Math.max(1, (20 * value) / most)} height=${Math.max(1, (20 * value) / most)} />`)}
    </svg>
  `;
}
