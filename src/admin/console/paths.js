// Paths: the pages and events after a page, or before it, in three levels.
import { html } from './vendor/preact-htm.js';
import { Bars } from './bars.js';
import { Against, changeInWords, numberIn, pairOf } from './compare.js';
import { change, count, counted, download, percent, url, useAnswer } from './core.js';
import { itemInWords, questionOf } from './lists.js';
import { Answer, Card, Empty, Footer, Select } from './parts.js';
import { usePages } from './steps.js';

const HOME = '/';
// Rows of a level. The API has at most 20.
const ROWS = 12;

const DIRECTIONS = [
  ['after', 'After the page'],
  ['before', 'Before the page'],
];
// The parameters of the chosen row of the first and of the second level.
const CHOSEN = ['first', 'second'];

// A page view without a path has the value null.
const keyOf = ({ kind, value }) => `${kind}:${value ?? ''}`;
const nameOf = ({ kind, value }) => itemInWords(kind, value);

export function Paths({ site, query, range }) {
  const page = query.get('path') ?? query.get('page') ?? HOME;
  const direction = query.get('direction') === 'before' ? 'before' : 'after';
  const address = url('insights/paths', { ...questionOf(site, query, range), page, direction, limit: ROWS });
  const answer = useAnswer(address);
  const submit = (event) => {
    event.preventDefault();
    change({ path: new FormData(event.currentTarget).get('path').trim(), first: null, second: null });
  };
  const pages = usePages(site, range);
  const { data, error } = answer;
  return html`
    ${data && !error && html`<p class="sentence"><${Sentence} data=${data} /></p>`}
    <form class="row bottom" onSubmit=${submit}>
      <label class="field"><span class="field-label">Page</span><input key=${page} name="path" defaultValue=${page} list="pages" required pattern="/.*" /></label>
      <datalist id="pages">${pages.map((path) => html`<option key=${path} value=${path} />`)}</datalist>
      <button type="submit">Show</button>
      <${Select} label="Direction" isHidden=${false} value=${direction} options=${DIRECTIONS} onChange=${(value) => change({ direction: value, first: null, second: null })} />
    </form>
    <${Answer} of=${answer}>
      ${(data) => html`
        <${Against} data=${data} timeZone=${site.timeZone} />
        <${Levels} data=${data} query=${query} />
        <${Footer} data=${data} csv=${() => download(address, `paths-${site.site}.csv`, 'text/csv')} />
      `}
    <//>
  `;
}

function Sentence({ data }) {
  const { page, direction, visits, exits, entries, next } = data;
  const isBefore = direction === 'before';
  if (visits === 0) return html`No visit saw <bdi>${page}</bdi> in this range.`;
  const ends = isBefore ? entries : exits;
  const begin = html`${counted(visits, 'visit')} saw <bdi>${page}</bdi>${changeInWords(data, ({ visits }) => visits)}. ${percent(ends / visits)} ${isBefore ? 'began' : 'ended'} there.`;
  if (next.length === 0) return begin;
  return html`${begin} Most often, <bdi>${nameOf(next[0])}</bdi> ${isBefore ? 'was before it' : 'was next'} (${percent(next[0].ofPage)}).`;
}

// Three levels beside each other. A click on a row shows the level after it.
function Levels({ data, query }) {
  const isBefore = data.direction === 'before';
  if (data.visits === 0) return html`<${Empty}>Choose another page or another range.<//>`;
  const levels = [data];
  const path = [];
  for (const name of CHOSEN) {
    const rows = levels.at(-1).next ?? [];
    const row = rows.find((one) => keyOf(one) === query.get(name)) ?? rows[0];
    if (!row?.next) break;
    levels.push(row);
    path.push(keyOf(row));
  }
  return html`
    <p class="dim lead small">Choose a row to see the level ${isBefore ? 'before' : 'after'} it.</p>
    <div class="cards">
      ${levels.map((level, at) => html`<${Level} key=${at} ...${{ data, level, at, isBefore }} path=${path.slice(0, at)} chosen=${levels[at + 1] && keyOf(levels[at + 1])} />`)}
    </div>
  `;
}

// Returns the visits of a row in the tree of a range, which may end before the row. `path` has the keys of the rows before it.
function visitsOf({ visits, next, more }, [key, ...path]) {
  if (key === undefined) return visits;
  return numberIn(next, more, (row) => keyOf(row) === key, (row) => visitsOf(row, path));
}

function Level({ data, level, at, path, isBefore, chosen }) {
  const title = html`${at + 1}. ${isBefore ? 'Before' : 'After'} <bdi>${at === 0 ? level.page : nameOf(level)}</bdi>`;
  const ends = isBefore ? level.entries : level.exits;
  const rows = level.next.map((row) => ({
    value: keyOf(row),
    text: nameOf(row),
    note: row.kind === 'event' ? 'event' : undefined,
    numbers: [row.visits],
    pair: pairOf(data, (tree) => visitsOf(tree, [...path, keyOf(row)])),
    isPressed: keyOf(row) === chosen,
  }));
  const name = CHOSEN[at];
  const pick = name && ((key) => change({ [name]: key, ...(at === 0 && { second: null }) }));
  return html`
    <${Card} title=${title}>
      ${rows.length > 0 && html`<${Bars} label=${`Level ${at + 1}`} unit="Page or event" columns=${['Visits']} rows=${rows} isCompared=${!!data.compared} onPick=${pick} />`}
      ${level.more > 0 && html`<p class="dim small more">${count(level.more)} more.</p>`}
      <p class="small more">${counted(ends, 'visit')} ${isBefore ? 'began' : 'ended'} here.</p>
    <//>
  `;
}
