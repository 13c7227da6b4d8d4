// Lists of values with their numbers, and the page of one whole list.
import { html } from './vendor/preact-htm.js';
import { Bars } from './bars.js';
import { Against, mostLines, pairOf } from './compare.js';
import { FILTERS, capital, change, count, download, named, pageUrl, toggleFilter, url, useAnswer } from './core.js';
import { Answer, Card, Empty, Footer } from './parts.js';

// More rows are slow to draw, and nobody reads them.
export const MOST_ROWS = 1000;

// Returns the parameters that all questions of a page share.
export function questionOf(site, query, range) {
  const filters = Object.fromEntries(FILTERS.map((name) => [name, query.getAll(name)]));
  return { site: site.site, ...range, compare: query.get('compare'), bots: query.get('bots'), ...filters };
}

// The first column orders the rows. Without `filter` no parameter selects such a value.
export const TOPS = [
  { of: 'page', title: 'Pages', unit: 'Path', filter: 'page' },
  { of: 'source', title: 'Sources', unit: 'Source', filter: 'source', by: 'visits' },
  { of: 'referrer', title: 'Referrers', unit: 'Host' },
  { of: 'campaign', title: 'Campaigns', unit: 'Campaign', filter: 'campaign', by: 'visits' },
  { of: 'medium', title: 'Campaign media', unit: 'Medium', by: 'visits' },
  { of: 'term', title: 'Campaign terms', unit: 'Term', by: 'visits' },
  { of: 'content', title: 'Campaign contents', unit: 'Content', by: 'visits' },
  { of: 'country', title: 'Countries', unit: 'Country', filter: 'country' },
  { of: 'language', title: 'Languages', unit: 'Language', filter: 'language' },
  { of: 'device', title: 'Devices', unit: 'Device', filter: 'device' },
  { of: 'browser', title: 'Browsers', unit: 'Browser' },
  { of: 'event', title: 'Events', unit: 'Event', filter: 'event', by: 'events' },
];

// The lists that only the page of pages has. No filter selects visits by their first or last page.
export const BOUNDS = [
  { of: 'entry', title: 'Entry pages', unit: 'Path', by: 'visits' },
  { of: 'exit', title: 'Exit pages', unit: 'Path', by: 'visits' },
];

const UNKNOWN = { referrer: '(no referrer)', campaign: '(no campaign)', medium: '(no medium)', term: '(no term)', content: '(no content)' };

// Returns the text of a value of a list, such as the name of a country. `of` names the list as in the API.
export function itemInWords(of, value) {
  if (value === null) return UNKNOWN[of] ?? (of.startsWith('property:') ? '(no value)' : '(unknown)');
  return value === '' ? '(empty)' : named(of, value);
}

const COLUMNS = { views: 'Views', visits: 'Visits', events: 'Count' };

// Rows of a list of the overview.
export const TOP_ROWS = 8;

export const Top = ({ children, ...list }) => html`
  <${TopRows} ...${list} />
  ${children?.(list.data.more)}
  <p class="dim small more"><a href=${pageUrl('list', { of: list.of })}>Whole list of ${list.title.toLowerCase()}</a>${list.data.more > 0 && `: ${count(list.data.more)} more`}</p>
`;

// `by` is the number that orders the rows, and whose change a comparison shows. An event without a page is in no number of the pages. The
// rows of all ranges have the same values.
function TopRows({ of, title, unit, filter, by = 'views', data, query, onPick }) {
  const row = ({ value, visitors, ...numbers }, at) => ({
    value,
    text: itemInWords(of, value),
    numbers: [numbers[by], visitors],
    pair: pairOf(data, ({ rows }) => rows[at][by]),
    isPressed: filter && query.getAll(filter).includes(value),
    isFixed: value === null || value === '(other)',
  });
  const shown = data.rows.map(row).filter(({ numbers: [first] }) => first > 0);
  if (shown.length === 0) return html`<${Empty}>None in this range.<//>`;
  const pick = onPick ?? (filter && ((value) => toggleFilter(filter, value)));
  return html`<${Bars} label=${title} unit=${unit} columns=${[COLUMNS[by], 'Visitors']} rows=${shown} isCompared=${!!data.compared} onPick=${pick} />`;
}

// The whole list of one table. The server searches, so that a value beyond the largest limit is found too.
export function List({ site, query, range }) {
  const top = [...TOPS, ...BOUNDS].find(({ of }) => of === query.get('of')) ?? TOPS[0];
  const question = { ...questionOf(site, query, range), of: top.of, contains: query.get('contains') };
  const answer = useAnswer(url('insights/top', { ...question, limit: MOST_ROWS }));
  const csv = () => download(url('insights/top', { ...question, limit: mostLines(question) }), `${top.of}-${site.site}.csv`, 'text/csv');
  const page = BOUNDS.includes(top) ? 'pages' : 'overview';
  const search = (event) => {
    event.preventDefault();
    change({ contains: new FormData(event.currentTarget).get('text').trim() || null });
  };
  return html`
    <p class="crumb"><a href=${pageUrl(page)}>${capital(page)}</a></p>
    <form class="row gap" role="search" onSubmit=${search}>
      <label class="field"><span class="field-label">${top.unit} contains</span><input key=${question.contains} name="text" type="search" defaultValue=${question.contains ?? ''} /></label>
      <button type="submit">Search</button>
    </form>
    <${Card} title=${top.title} wide>
      <${Answer} of=${answer}>
        ${(data) => html`
          <${Against} data=${data} timeZone=${site.timeZone} />
          <${TopRows} ...${top} data=${data} query=${query} />
          ${data.more > 0 && html`<p class="dim small more">${count(data.more)} more. Search, or filter. The CSV has up to ${count(mostLines(question))} rows.</p>`}
          <${Footer} data=${data} csv=${csv} />
        `}
      <//>
    <//>
  `;
}
