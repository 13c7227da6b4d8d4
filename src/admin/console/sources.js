// Sources: the channels, sources, campaigns, countries and devices of visitors, and the conversions of a goal that are credited to them.
import { html } from './vendor/preact-htm.js';
import { Against, changeInWords, mostLines, pairOf, withChange } from './compare.js';
import { change, count, counted, download, percent, toggleFilter, url, useAnswer, valueInWords } from './core.js';
import { GoalSelect, NoGoals, chosenGoal, isOneCurrency } from './goals.js';
import { TOPS, itemInWords, questionOf } from './lists.js';
import { Answer, Card, Empty, Footer, Scroll, Select, Table } from './parts.js';

// Rows of a table.
const ROWS = 20;
const TABLES = [
  { of: 'channel', title: 'Channels', unit: 'Channel' },
  ...['source', 'campaign', 'country', 'device'].map((name) => TOPS.find(({ of }) => of === name)),
];
const SOURCES = 1;

export function Sources({ site, query, range }) {
  const goal = chosenGoal(site, query);
  const question = { ...questionOf(site, query, range), goal };
  const answers = TABLES.map(({ of }) => useAnswer(url('insights/top', { ...question, of, limit: ROWS })));
  const property = site.properties.includes(query.get('property')) ? query.get('property') : site.properties[0];
  const ofProperty = { of: `property:${property}`, title: 'Properties', unit: property };
  const byProperty = useAnswer(property === undefined ? null : url('insights/top', { ...question, of: ofProperty.of, limit: ROWS }));
  const { data, error } = answers[SOURCES];
  return html`
    ${data && !error && html`<p class="sentence"><${Sentence} data=${data} /></p>`}
    ${!goal && html`<${NoGoals} />`}
    <div class="row bottom">
      ${goal && html`<${GoalSelect} site=${site} goal=${goal} onChange=${(key) => change({ goal: key })} />`}
      ${data && !error && html`<${Against} data=${data} timeZone=${site.timeZone} />`}
    </div>
    ${TABLES.map((table, at) => html`<${Origins} key=${table.of} ...${table} ...${{ site, question, query }} answer=${answers[at]} />`)}
    ${property !== undefined && html`
      <${Origins} ...${ofProperty} ...${{ site, question, query }} answer=${byProperty}>
        <${Select} label="Property" isHidden=${false} value=${property} options=${site.properties.map((name) => [name, name])} onChange=${(name) => change({ property: name })} />
      <//>
    `}
    <p class="dim small">A conversion counts for the visit that it is credited to. “Converted” counts visitors. The rate is their share of all visitors with an event that is credited to the row.</p>
  `;
}

// Names the source with the most converted visitors. A list without a goal has the most visited source first.
function Sentence({ data }) {
  const { rows, total, goals } = data;
  if (rows.length === 0) return 'No visits in this range.';
  const [first] = rows;
  const source = html`<bdi>${itemInWords('source', first.value)}</bdi>`;
  const visits = `${counted(total.visits, 'visit')} by ${counted(total.visitors, 'visitor')}${changeInWords(data, ({ total }) => total.visitors)}.`;
  if (!goals?.length) return html`${visits} ${source} brought ${percent(first.visits / total.visits)} of the visits.`;
  const [all] = total.goals;
  if (all.conversions === 0) return html`${visits} No conversions of “<bdi>${goals[0].name}</bdi>”.`;
  return html`
    ${visits} ${source} brought ${percent(first.goals[0].conversions / all.conversions)} of the
    ${' '}${counted(all.conversions, 'conversion')} of “<bdi>${goals[0].name}</bdi>”.
  `;
}

function Origins({ of, title, unit, filter, site, question, query, answer, children }) {
  const csv = () => download(url('insights/top', { ...question, of, limit: mostLines(question) }), `${of.replace(':', '-')}-${site.site}.csv`, 'text/csv');
  return html`
    <${Card} title=${title} wide>
      ${children}
      <${Answer} of=${answer}>
        ${(data) => html`
          ${data.rows.length === 0 && html`<${Empty}>None in this range.<//>`}
          ${data.rows.length > 0 && html`<${Scroll} label=${`${title}, table`} isWhole><${Table} label=${title} stacks rows=${data.rows} keyOf=${({ value }) => value ?? ''} columns=${columnsOf({ data, of, unit, filter, query })} /><//>`}
          ${data.more > 0 && html`<p class="dim small more">${count(data.more)} more in the CSV.</p>`}
          <${Footer} data=${data} csv=${csv} />
        `}
      <//>
    <//>
  `;
}

// The rows of all ranges have the same values, so a row is found by its place.
function columnsOf({ data, of, unit, filter, query }) {
  const change = (row, text, numberOf, words) => withChange(text, pairOf(data, ({ rows }) => numberOf(rows[data.rows.indexOf(row)])), words);
  const name = ({ value }) => {
    const text = html`<bdi>${itemInWords(of, value)}</bdi>`;
    if (!filter || value === null || value === '(other)') return text;
    return html`<button type="button" class="link" aria-pressed=${query.getAll(filter).includes(value)} onClick=${() => toggleFilter(filter, value)}>${text}</button>`;
  };
  const number = (name, of) => ({ name, isNumber: true, of });
  const visits = [
    { name: unit, isHead: true, of: name },
    number('Visitors', (row) => change(row, count(row.visitors), ({ visitors }) => visitors)),
    number('Visits', (row) => change(row, count(row.visits), ({ visits }) => visits)),
  ];
  // Most properties are of events without a page view.
  if (of.startsWith('property:')) visits.push(number('Events', ({ events }) => count(events)));
  if (!data.goals?.length) return visits;
  const ofGoal = (row, text, key, words) => change(row, text(row.goals[0][key]), ({ goals }) => goals[0][key], words);
  return [
    ...visits,
    number('Conversions', (row) => ofGoal(row, count, 'conversions')),
    number('Converted', (row) => ofGoal(row, count, 'converted')),
    number('Rate', (row) => ofGoal(row, percent, 'rate', percent)),
    number('Value', (row) => change(row, valueInWords(data.goals[0], row.goals[0]), amountIn(data, row))),
  ];
}

// Returns a function that reads the amount of a row. It gives null if the ranges have several currencies.
function amountIn(data, row) {
  const sums = pairOf(data, ({ rows }) => rows[data.rows.indexOf(row)].goals[0]);
  const isComparable = sums && data.goals[0].value !== null && isOneCurrency(sums.now, sums.before);
  return ({ goals }) => (isComparable ? goals[0].amount : null);
}
