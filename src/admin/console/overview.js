// Overview: how many came, what they looked at, where they came from, and how many are here now.
import { html } from './vendor/preact-htm.js';
import { Against, changeInWords, pairOf, withChange } from './compare.js';
import { POLL_MS, change, count, counted, download, percent, toggleFilter, url, useAnswer, valueInWords } from './core.js';
import { GOALS_ASKED_MAX, chosenGoal, isOneCurrency } from './goals.js';
import { TOPS, TOP_ROWS, Top, itemInWords, questionOf } from './lists.js';
import { Answer, Card, Footer, Select, Tile } from './parts.js';
import { PublishedChart } from './publications.js';

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

// Without a choice, the overview is compared with the period before. One request asks for all numbers of the range without goals. Further ones ask for the goals, so that the page has numbers while
// the server prepares its log for new goals.
export function Overview({ site, query, range }) {
  const chosen = questionOf(site, query, range);
  const question = { ...chosen, compare: chosen.compare ?? 'previous' };
  const by = bucketOf(query, range);
  const address = url('insights/overview', { ...question, by, of: TOPS.map(({ of }) => of), limit: TOP_ROWS });
  const answer = useAnswer(address);
  const csv = () => download(address, `overview-${site.site}.csv`, 'text/csv');
  const { data, error } = answer;
  return html`
    ${data && !error && html`<p class="sentence"><${Sentence} data=${data} site=${site} question=${question} /></p>`}
    <${Live} question=${question} />
    <${Answer} of=${answer}>
      ${(data) => html`
        <${Totals} data=${data} site=${site} by=${by} csv=${csv} />
        ${site.goals.length > 0 && html`<${Goals} site=${site} question=${question} />`}
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

const LINES = [
  ['visitors', 'Visitors'],
  ['views', 'Page views'],
];

// Returns the lines of the chart. The first bucket of a compared line is drawn at the first one of the range.
function linesOf({ compared }, series) {
  const lines = LINES.map(([key, name]) => ({ name, values: series[key] }));
  const before = LINES.map(([key, name], like) => ({ name: `${name}, compared`, values: series.t.map((_, at) => compared?.series[key][at] ?? null), like }));
  return compared ? [...lines, ...before] : lines;
}

function Totals({ data, site, by, csv }) {
  const { totals } = data;
  const series = pastOf(data.series);
  const isRunning = Date.parse(data.to) > Date.now();
  const lines = linesOf(data, series);
  const shareOf = (key) =>
    key === 'personalized' && totals.visitors > 0 ? `${percent(totals.personalized / totals.visitors)} of visitors` : undefined;
  return html`
    <div class="tiles">
      ${TILES.map(
        ([key, label]) => html`
        <${Tile} key=${key} label=${label} value=${totals[key]} note=${shareOf(key)} change=${pairOf(data, ({ totals }) => totals[key])} />
      `,
      )}
    </div>
    <${Against} data=${data} timeZone=${site.timeZone} />
    <${Card} title="Visitors and page views" wide
      actions=${html`<${Select} label="Time step" value=${by} options=${STEPS} onChange=${(step) => change({ by: step })} />`}>
      <${PublishedChart} key=${by} compares ...${{ site, from: data.from, to: data.to, by, isRunning }} isFilled label="Visitors and page views" t=${series.t} series=${lines} timeZone=${site.timeZone} />
    <//>
    <${Footer} data=${data} csv=${csv} />
  `;
}

function Sentence({ data, site, question }) {
  const goal = chosenGoal(site, new URLSearchParams());
  const { visitors } = data.totals;
  const compared = changeInWords(data, ({ totals }) => totals.visitors);
  return html`${counted(visitors, 'visitor')}${compared}.${goal && visitors > 0 && html` <${BestSource} question=${question} goal=${goal} />`}`;
}

// Names the source with the most converted visitors, and its share of the conversions.
function BestSource({ question, goal }) {
  const { data, error } = useAnswer(url('insights/top', { ...question, compare: null, of: 'source', goal, limit: 1 }));
  if (!data || error) return null;
  const [all] = data.total.goals;
  const name = html`“<bdi>${data.goals[0].name}</bdi>”`;
  if (all.conversions === 0) return html`No conversions of ${name}.`;
  const [{ value, goals }] = data.rows;
  return html`<bdi>${itemInWords('source', value)}</bdi> brought ${percent(goals[0].conversions / all.conversions)} of the ${counted(all.conversions, 'conversion')} of ${name}.`;
}

// A tile for each goal.
function Goals({ site, question }) {
  const keys = site.goals.slice(0, GOALS_ASKED_MAX).map(({ key }) => key);
  const hidden = site.goals.length - keys.length;
  const address = url('insights/overview', { ...question, by: 'month', goal: keys });
  const answer = useAnswer(address);
  return html`
    <section aria-label="Goals">
      <h2 class="page-title">Goals</h2>
      <${Answer} of=${answer}>
        ${(data) => html`
          <div class="tiles goals">${data.goals.map((goal, at) => html`<${GoalTile} key=${goal.goal} goal=${goal} data=${data} at=${at} />`)}</div>
          ${hidden > 0 && html`<p class="dim small">The page shows the first ${count(keys.length)} goals. The page Sources has ${count(hidden)} more.</p>`}
          <${Footer} data=${data} csv=${() => download(address, `goals-${site.site}.csv`, 'text/csv')} />
        `}
      <//>
    </section>
  `;
}

function GoalTile({ goal, data, at }) {
  const reached = data.totals.goals[at];
  const pair = (name) => pairOf(data, ({ totals }) => totals.goals[at][name]);
  const sums = pairOf(data, ({ totals }) => totals.goals[at]);
  const facts = [
    ['Converted visitors', withChange(count(reached.converted), pair('converted'))],
    ['Rate', withChange(percent(reached.rate), pair('rate'), percent)],
    ...(goal.value === null
      ? []
      : [['Value', withChange(valueInWords(goal, reached), sums && isOneCurrency(sums.now, sums.before) ? pair('amount') : undefined)]]),
  ];
  return html`
    <div class="tile">
      <div class="tile-label"><bdi>${goal.name}</bdi></div>
      <div class="tile-value">${count(reached.conversions)}</div>
      ${withChange('', pair('conversions'))}
      <dl class="facts">${facts.map(([name, text]) => html`<dt>${name}</dt><dd>${text}</dd>`)}</dl>
      ${reached.ignoredAmounts > 0 && html`<div class="dim small">${counted(reached.ignoredAmounts, 'conversion')} without an amount</div>`}
    </div>
  `;
}

function Live({ question }) {
  const answer = useAnswer(url('insights/live', { ...question, from: null, to: null, compare: null, limit: 3 }), { every: POLL_MS });
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
