// Sources: the channels, sources and campaigns that brought visitors, and the conversions of a goal that are credited to them.
import { html } from './vendor/preact-htm.js';
import { change, count, counted, download, percent, toggleFilter, url, useAnswer } from './core.js';
import { GoalSelect, NoGoals, chosenGoal, valueInWords } from './goals.js';
import { questionOf } from './lists.js';
import { Answer, Card, Empty, Footer, Scroll, Table } from './parts.js';

// Rows of a table. The CSV has up to the largest limit of the API.
const ROWS = 20;
const CSV_ROWS = 10_000;

const TABLES = [
  { of: 'channel', title: 'Channels', unit: 'Channel', none: '(no channel)' },
  { of: 'source', title: 'Sources', unit: 'Source', none: '(no source)', filter: 'source' },
  { of: 'campaign', title: 'Campaigns', unit: 'Campaign', none: '(no campaign)', filter: 'campaign' },
];
const SOURCES = 1;

export function Sources({ site, query, range }) {
  const goal = chosenGoal(site, query);
  const question = { ...questionOf(site, query, range), goal };
  const answers = TABLES.map(({ of }) => useAnswer(url('insights/top', { ...question, of, limit: ROWS })));
  return html`
    <${Answer} of=${answers[SOURCES]}>${(data) => html`<p class="sentence"><${Sentence} data=${data} /></p>`}<//>
    ${goal ? html`<div class="row bottom"><${GoalSelect} site=${site} goal=${goal} onChange=${(key) => change({ goal: key })} /></div>` : html`<${NoGoals} />`}
    ${TABLES.map((table, at) => html`<${Origins} key=${table.of} ...${table} ...${{ site, question, query }} answer=${answers[at]} />`)}
    <p class="dim small">A conversion counts for the visit that it is credited to. The rate is the share of the visitors who are credited to the row.</p>
  `;
}

// Names the source with the most converted visitors. A list without a goal has the most visited source first.
function Sentence({ data: { rows, total, goals } }) {
  if (rows.length === 0) return 'No visits in this range.';
  const [first] = rows;
  const visits = `${counted(total.visits, 'visit')} by ${counted(total.visitors, 'visitor')}.`;
  if (!goals?.length) return html`${visits} <bdi>${first.value}</bdi> brought ${percent(first.visits / total.visits)} of the visits.`;
  const [all] = total.goals;
  if (all.conversions === 0) return html`${visits} No conversions of “<bdi>${goals[0].name}</bdi>”.`;
  return html`
    ${visits} <bdi>${first.value}</bdi> brought ${percent(first.goals[0].conversions / all.conversions)} of the
    ${' '}${counted(all.conversions, 'conversion')} of “<bdi>${goals[0].name}</bdi>”.
  `;
}

function Origins({ of, title, unit, none, filter, site, question, query, answer }) {
  const csv = () => download(url('insights/top', { ...question, of, limit: CSV_ROWS }), `${of}-${site.site}.csv`, 'text/csv');
  return html`
    <${Card} title=${title} wide>
      <${Answer} of=${answer}>
        ${(data) => html`
          ${data.rows.length === 0 && html`<${Empty}>None in this range.<//>`}
          ${data.rows.length > 0 && html`<${Scroll} label=${`${title}, table`} isWhole><${Table} label=${title} stacks rows=${data.rows} keyOf=${({ value }) => value ?? ''} columns=${columnsOf({ data, unit, none, filter, query })} /><//>`}
          ${data.more > 0 && html`<p class="dim small more">${count(data.more)} more in the CSV.</p>`}
          <${Footer} data=${data} csv=${csv} />
        `}
      <//>
    <//>
  `;
}

function columnsOf({ data, unit, none, filter, query }) {
  const name = ({ value }) => {
    if (value === null) return none;
    const isPressed = filter && query.getAll(filter).includes(value);
    if (!filter || value === '(other)') return html`<bdi>${value}</bdi>`;
    return html`<button type="button" class="link" aria-pressed=${!!isPressed} onClick=${() => toggleFilter(filter, value)}><bdi>${value}</bdi></button>`;
  };
  const number = (name, of) => ({ name, isNumber: true, of });
  const visits = [
    { name: unit, isHead: true, of: name },
    number('Visitors', ({ visitors }) => count(visitors)),
    number('Visits', (row) => count(row.visits)),
  ];
  if (!data.goals?.length) return visits;
  return [
    ...visits,
    number('Conversions', ({ goals }) => count(goals[0].conversions)),
    number('Converted', ({ goals }) => count(goals[0].converted)),
    number('Rate', ({ goals }) => percent(goals[0].rate)),
    number('Value', ({ goals }) => valueInWords(data.goals[0], goals[0])),
  ];
}
