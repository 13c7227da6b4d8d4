// The list of visitors: those with the newest activity or conversion, and those that have a trait with a text.
import { html, useState } from './vendor/preact-htm.js';
import { FILTERS, ago, amount, change, count, counted, dateTime, download, pageUrl, url, useAnswer } from './core.js';
import { FindById } from './find.js';
import { itemInWords, questionOf } from './lists.js';
import { Answer, Card, Empty, Field, Footer, Pill, Scroll, Select, Table } from './parts.js';

// On the page of one visitor, the country and the device are those of the explained page.
const NO_FILTERS = Object.fromEntries(FILTERS.map((name) => [name, null]));

// Rows of a page, and of the CSV. The API has at most 100.
const ROWS = 20;
const MOST_LINES = 100;

export function People({ site, query, range }) {
  // The text of a trait is a fact about a person. So it is never in the URL.
  const [wanted, setWanted] = useState(null);
  const goals = [['', 'Any activity'], ...site.goals.map(({ key, name }) => [key, name])];
  const goal = site.goals.some(({ key }) => key === query.get('goal')) ? query.get('goal') : null;
  const question = { ...questionOf(site, query, range), goal };
  return html`
    <div class="row bottom">
      <${FindById} />
      ${site.searchable.length > 0 && html`<${FindByTrait} names=${site.searchable} onFind=${setWanted} />`}
    </div>
    ${
      wanted
        ? html`<${Found} key=${JSON.stringify(wanted)} ...${{ site, wanted }} onClose=${() => setWanted(null)} />`
        : html`
        ${site.goals.length > 0 && html`<div class="row bottom"><${Select} label="Reached the goal" isHidden=${false} value=${goal ?? ''} options=${goals} onChange=${(key) => change({ goal: key || null })} /></div>`}
        <${Newest} key=${JSON.stringify(question)} ...${{ site, question }} />
      `
    }
  `;
}

function FindByTrait({ names, onFind }) {
  const [name, setName] = useState(names[0]);
  const submit = (event) => {
    event.preventDefault();
    onFind({ [name]: new FormData(event.currentTarget).get('text').trim() });
  };
  return html`
    <form class="row find grow" role="search" aria-label="Find by a trait" onSubmit=${submit}>
      <${Select} label="Trait" isHidden=${false} value=${name} options=${names.map((one) => [one, one])} onChange=${setName} />
      <div class="grow"><${Field} label="Whole text" name="text" type="search" required pattern=".*\\S.*" autocomplete="off" spellcheck="false" /></div>
      <button type="submit">Search</button>
    </form>
  `;
}

// The pages of the list. `after` has the cursor of the shown one.
function Newest({ site, question }) {
  const [after, setAfter] = useState(null);
  const answer = useAnswer(url('insights/visitors', { ...question, limit: ROWS, after }));
  const csv = () => download(url('insights/visitors', { ...question, limit: MOST_LINES, after }), `visitors-${site.site}.csv`, 'text/csv');
  const { data, error } = answer;
  return html`
    ${data && !error && html`<p class="sentence"><${Sentence} data=${data} /></p>`}
    <${Card} title=${data?.goal ? html`Newest first: <bdi>${data.goal.name}</bdi>` : 'Newest activity first'} wide>
      <${Answer} of=${answer}>
        ${(data) => html`
          <${Rows} ...${{ site, data }} />
          <div class="row">
            ${after && html`<button type="button" onClick=${() => setAfter(null)}>First page</button>`}
            ${data.next && html`<button type="button" onClick=${() => setAfter(data.next)}>Next page</button>`}
          </div>
          <${Footer} data=${data} csv=${csv} />
        `}
      <//>
    <//>
  `;
}

// Says how many visitors the list has. With a goal, also the newest conversion of the shown page.
function Sentence({ data: { total, goal, rows } }) {
  const [first] = rows;
  if (!goal) return html`${counted(total, 'visitor')} in this range.${first && ` The newest activity was ${ago(first.lastActivity)}.`}`;
  const name = html`“<bdi>${goal.name}</bdi>”`;
  if (total === 0) return html`No visitor reached ${name} in this range.`;
  const value = first && first.amount !== null && html`, with ${amount(first.amount)}${first.currency && html` <bdi>${first.currency}</bdi>`}`;
  return html`${counted(total, 'visitor')} reached ${name} in this range.${first && html` The newest here was ${ago(first.lastConversion)}${value}.`}`;
}

function Found({ site, wanted, onClose }) {
  const [name] = Object.keys(wanted);
  const address = url('insights/visitors', { site: site.site }, wanted);
  const answer = useAnswer(address);
  const { data, error } = answer;
  const close = html`<button type="button" onClick=${onClose}>All visitors</button>`;
  return html`
    ${data && !error && html`<p class="sentence">${counted(data.total, 'visitor')} ${data.total === 1 ? 'has' : 'have'} this text in <bdi>${name}</bdi>${data.more && ', and more that are not shown'}.</p>`}
    <${Card} title="Found visitors" actions=${close} wide>
      <${Answer} of=${answer}>
        ${(data) => html`
          <${Rows} ...${{ site, data }} />
          <p class="dim small">The text is compared as a whole, without case. Visitors whose profile was evicted are not found.</p>
          <${Footer} data=${data} csv=${() => download(address, `visitors-${site.site}.csv`, 'text/csv')} />
        `}
      <//>
    <//>
  `;
}

// Names a visitor by its first searchable trait, or by its ID.
const nameOf = ({ traits, userId, anonId }) =>
  Object.values(traits).find((value) => typeof value === 'string' && value !== '') ?? userId ?? anonId ?? '(deleted)';

const Visitor = ({ row }) => {
  const id = row.anonId ? { anonId: row.anonId } : { userId: row.userId };
  const name = html`<bdi>${nameOf(row)}</bdi>`;
  if (!row.anonId && !row.userId) return name;
  return html`<a href=${pageUrl('visitors', { ...NO_FILTERS, ...id })}>${name}</a>${row.userId !== null && html` <${Pill}>user<//>`}`;
};

function Rows({ site, data }) {
  if (data.rows.length === 0) return html`<${Empty}>None.<//>`;
  const time = (name, member) => ({
    name,
    isNumber: true,
    of: (row) => (row[member] === null ? '–' : html`<span title=${dateTime(row[member], site.timeZone)}>${ago(row[member])}</span>`),
  });
  const value = (row) => (row.amount === null ? '–' : html`${amount(row.amount)} <bdi>${row.currency ?? ''}</bdi>`);
  const ofGoal = [time('Reached', 'lastConversion'), { name: 'Value', isNumber: true, of: value }, { name: 'Times', isNumber: true, of: (row) => count(row.conversions) }];
  const text = (name, of) => ({ name, of: (row) => html`<bdi>${itemInWords(of, row[of])}</bdi>` });
  const columns = [
    { name: 'Visitor', isHead: true, of: (row) => html`<${Visitor} row=${row} />` },
    ...(data.goal ? (data.goal.value === null ? [ofGoal[0], ofGoal[2]] : ofGoal) : []),
    time('Last activity', 'lastActivity'),
    time('First activity', 'firstActivity'),
    { name: 'Views', isNumber: true, of: (row) => count(row.views) },
    { name: 'Events', isNumber: true, of: (row) => count(row.events) },
    text('Source', 'source'),
    text('Country', 'country'),
    text('Device', 'device'),
  ];
  const label = 'Visitors';
  return html`<${Scroll} label=${`${label}, table`} isWhole><${Table} label=${label} stacks columns=${columns} rows=${data.rows} keyOf=${(row) => `${row.anonId} ${row.userId}`} /><//>`;
}
