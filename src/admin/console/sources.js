// Sources: the channels, sources, campaigns, countries and devices of visitors, and the conversions of a goal that are credited to them.
import { html } from './vendor/preact-htm.js';
import { change, count, counted, daysBetween, download, percent, toggleFilter, url, useAnswer, valueInWords } from './core.js';
import { GoalSelect, NoGoals, chosenGoal } from './goals.js';
import { MOST_LINES, TOPS, itemInWords, questionOf } from './lists.js';
import { Answer, Card, Change, Empty, Footer, Scroll, Select, Table } from './parts.js';

// Rows of a table.
const ROWS = 20;
// Rows of the period before, in which the rows of a table are looked up.
const ROWS_BEFORE = 1000;

const COMPARISONS = [
  ['', 'Nothing'],
  ['before', 'The period before'],
];

const TABLES = [
  { of: 'channel', title: 'Channels', unit: 'Channel' },
  ...['source', 'campaign', 'country', 'device'].map((name) => TOPS.find(({ of }) => of === name)),
];
const SOURCES = 1;

export function Sources({ site, query, range }) {
  const goal = chosenGoal(site, query);
  const question = { ...questionOf(site, query, range), goal };
  const answers = TABLES.map(({ of }) => useAnswer(url('insights/top', { ...question, of, limit: ROWS })));
  const [period, rowsBefore] = useBefore(question, query.get('compare') === 'before');
  const { data, error } = answers[SOURCES];
  return html`
    ${data && !error && html`<p class="sentence"><${Sentence} data=${data} /></p>`}
    ${!goal && html`<${NoGoals} />`}
    <div class="row bottom">
      ${goal && html`<${GoalSelect} site=${site} goal=${goal} onChange=${(key) => change({ goal: key })} />`}
      <${Select} label="Compare with" isHidden=${false} value=${query.get('compare') ?? ''} options=${COMPARISONS} onChange=${(value) => change({ compare: value || null })} />
      ${period && html`<p class="dim small">The changes are against ${daysBetween(period.from, Date.parse(period.to) - 1, site.timeZone)}.</p>`}
    </div>
    ${TABLES.map((table, at) => html`<${Origins} key=${table.of} ...${table} ...${{ site, question, query }} answer=${answers[at]} before=${rowsBefore[at]} />`)}
    <p class="dim small">A conversion counts for the visit that it is credited to. The rate is the share of the visitors who are credited to the row.</p>
  `;
}

// Returns the data of an answer, but not those of an earlier question.
const presentData = ({ data, error, isLoading }) => (error || isLoading ? undefined : data);

// Returns the period before with the rows of each table in it. The overview knows which part of it to compare with a running day. Its
// numbers are not used, so it counts no goal and few buckets.
function useBefore(question, isCompared) {
  const overview = url('insights/overview', { ...question, goal: null, by: 'month' });
  const period = presentData(useAnswer(isCompared ? overview : null))?.comparison?.before;
  const rows = TABLES.map(({ of }) => {
    const address = period ? url('insights/top', { ...question, from: period.from, to: period.to, of, limit: ROWS_BEFORE }) : null;
    return presentData(useAnswer(address));
  });
  return [period, rows];
}

// Names the source with the most converted visitors. A list without a goal has the most visited source first.
function Sentence({ data: { rows, total, goals } }) {
  if (rows.length === 0) return 'No visits in this range.';
  const [first] = rows;
  const source = html`<bdi>${itemInWords('source', first.value)}</bdi>`;
  const visits = `${counted(total.visits, 'visit')} by ${counted(total.visitors, 'visitor')}.`;
  if (!goals?.length) return html`${visits} ${source} brought ${percent(first.visits / total.visits)} of the visits.`;
  const [all] = total.goals;
  if (all.conversions === 0) return html`${visits} No conversions of “<bdi>${goals[0].name}</bdi>”.`;
  return html`
    ${visits} ${source} brought ${percent(first.goals[0].conversions / all.conversions)} of the
    ${' '}${counted(all.conversions, 'conversion')} of “<bdi>${goals[0].name}</bdi>”.
  `;
}

function Origins({ of, title, unit, filter, site, question, query, answer, before }) {
  const csv = () => download(url('insights/top', { ...question, of, limit: MOST_LINES }), `${of}-${site.site}.csv`, 'text/csv');
  return html`
    <${Card} title=${title} wide>
      <${Answer} of=${answer}>
        ${(data) => html`
          ${data.rows.length === 0 && html`<${Empty}>None in this range.<//>`}
          ${data.rows.length > 0 && html`<${Scroll} label=${`${title}, table`} isWhole><${Table} label=${title} stacks rows=${data.rows} keyOf=${({ value }) => value ?? ''} columns=${columnsOf({ data, before, of, unit, filter, query })} /><//>`}
          ${data.more > 0 && html`<p class="dim small more">${count(data.more)} more in the CSV.</p>`}
          <${Footer} data=${data} csv=${csv} />
        `}
      <//>
    <//>
  `;
}

// Shows a number with its change. A value that the looked-up rows before lack had none, unless there were more of them.
function compared(before, value, numberOf, now) {
  if (!before) return count(now);
  const row = before.rows.find((one) => one.value === value);
  if (!row && before.more > 0) return count(now);
  return html`${count(now)}<${Change} now=${now} before=${row ? numberOf(row) : 0} />`;
}

function columnsOf({ data, before, of, unit, filter, query }) {
  const name = ({ value }) => {
    const text = html`<bdi>${itemInWords(of, value)}</bdi>`;
    if (!filter || value === null || value === '(other)') return text;
    return html`<button type="button" class="link" aria-pressed=${query.getAll(filter).includes(value)} onClick=${() => toggleFilter(filter, value)}>${text}</button>`;
  };
  const number = (name, of) => ({ name, isNumber: true, of });
  const visits = [
    { name: unit, isHead: true, of: name },
    number('Visitors', (row) => compared(before, row.value, ({ visitors }) => visitors, row.visitors)),
    number('Visits', (row) => count(row.visits)),
  ];
  if (!data.goals?.length) return visits;
  return [
    ...visits,
    number('Conversions', ({ goals }) => count(goals[0].conversions)),
    number('Converted', (row) => compared(before, row.value, ({ goals }) => goals[0].converted, row.goals[0].converted)),
    number('Rate', ({ goals }) => percent(goals[0].rate)),
    number('Value', ({ goals }) => valueInWords(data.goals[0], goals[0])),
  ];
}
