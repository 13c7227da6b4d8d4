// Overview: how many came, what they looked at, where they came from, and how many are here now.
import { html, useEffect, useRef, useState } from './vendor/preact-htm.js';
import {
  FILTERS,
  POLL_MS,
  change,
  clockTime,
  count,
  daysBetween,
  download,
  named,
  pageUrl,
  percent,
  toggleFilter,
  url,
  useAnswer,
} from './core.js';
import { capital, conditionInWords } from './explain.js';
import {
  Answer,
  Bars,
  Card,
  Chart,
  Code,
  Csv,
  Details,
  Empty,
  Footer,
  Json,
  Notice,
  Pill,
  Scroll,
  Select,
  Stranger,
  Table,
  Tile,
} from './parts.js';

const HOUR_MS = 3_600_000;
const STEPS = [
  ['hour', 'By hour'],
  ['day', 'By day'],
  ['week', 'By week'],
  ['month', 'By month'],
];

// Returns the parameters that all questions of a page share.
function questionOf(site, query, range) {
  const filters = Object.fromEntries(FILTERS.map((name) => [name, query.getAll(name)]));
  return { site: site.site, ...range, bots: query.get('bots'), ...filters };
}

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

// The first column orders the rows. Without `filter` no parameter selects such a value.
const TOPS = [
  { of: 'page', title: 'Pages', unit: 'Path', filter: 'page' },
  { of: 'source', title: 'Sources', unit: 'Source', filter: 'source', by: 'visits' },
  { of: 'referrer', title: 'Referrers', unit: 'Host' },
  { of: 'campaign', title: 'Campaigns', unit: 'Campaign', filter: 'campaign', by: 'visits' },
  { of: 'medium', title: 'Campaign media', unit: 'Medium', by: 'visits' },
  { of: 'term', title: 'Campaign terms', unit: 'Term', by: 'visits' },
  { of: 'content', title: 'Campaign contents', unit: 'Content', by: 'visits' },
  { of: 'country', title: 'Countries', unit: 'Country', filter: 'country', text: (code) => named('country', code) },
  { of: 'language', title: 'Languages', unit: 'Language', filter: 'language', text: (code) => named('language', code) },
  { of: 'device', title: 'Devices', unit: 'Device', filter: 'device' },
  { of: 'browser', title: 'Browsers', unit: 'Browser' },
  { of: 'event', title: 'Events', unit: 'Event', filter: 'event', by: 'events' },
];

// The lists that only the page of pages has. No filter selects visits by their first or last page.
const BOUNDS = [
  { of: 'entry', title: 'Entry pages', unit: 'Path', by: 'visits' },
  { of: 'exit', title: 'Exit pages', unit: 'Path', by: 'visits' },
];

const UNKNOWN = { referrer: '(no referrer)', campaign: '(no campaign)', medium: '(no medium)', term: '(no term)', content: '(no content)' };
const COLUMNS = { views: 'Views', visits: 'Visits', events: 'Count' };

// Rows of a list of the overview.
const TOP_ROWS = 8;

const Top = ({ data: { rows, more }, children, ...list }) => html`
  <${TopRows} ...${list} rows=${rows} />
  ${children?.(more)}
  <p class="dim small more"><a href=${pageUrl('list', { of: list.of })}>Whole list of ${list.title.toLowerCase()}</a>${more > 0 && `: ${count(more)} more`}</p>
`;

// `by` is the number that orders the rows. An event without a page is in no number of the pages.
function TopRows({ of, title, unit, filter, text = (value) => value, by = 'views', rows, query, onPick }) {
  const row = ({ value, visitors, ...numbers }) => ({
    value,
    text: value === null ? (UNKNOWN[of] ?? '(unknown)') : text(value),
    numbers: [numbers[by], visitors],
    isPressed: filter && query.getAll(filter).includes(value),
    isFixed: value === null || value === '(other)',
  });
  const shown = rows.map(row).filter(({ numbers: [first] }) => first > 0);
  if (shown.length === 0) return html`<${Empty}>None in this range.<//>`;
  const pick = onPick ?? (filter && ((value) => toggleFilter(filter, value)));
  return html`<${Bars} label=${title} unit=${unit} columns=${[COLUMNS[by], 'Visitors']} rows=${shown} onPick=${pick} />`;
}

// The whole list of one table. The server searches, so that a value beyond the largest limit is found too.
export function List({ site, query, range }) {
  const top = [...TOPS, ...BOUNDS].find(({ of }) => of === query.get('of')) ?? TOPS[0];
  const question = { ...questionOf(site, query, range), of: top.of, contains: query.get('contains') };
  const answer = useAnswer(url('insights/top', { ...question, limit: MOST_ROWS }));
  const csv = () => download(url('insights/top', { ...question, limit: MOST_LINES }), `${top.of}-${site.site}.csv`, 'text/csv');
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
          <${TopRows} ...${top} rows=${data.rows} query=${query} />
          ${data.more > 0 && html`<p class="dim small more">${count(data.more)} more. Search, or filter. The CSV has up to ${count(MOST_LINES)} rows.</p>`}
          <${Footer} data=${data} csv=${csv} />
        `}
      <//>
    <//>
  `;
}

// Pages: which are seen, where visits begin and end, and which variants of its zones a page showed.

const FIRST_ROWS = 25;
const MORE_ROWS = 200;
// More rows are slow to draw, and nobody reads them.
const MOST_ROWS = 1000;
// The largest limit of the API.
const MOST_LINES = 10_000;

export function Pages({ site, query, range }) {
  const question = questionOf(site, query, range);
  const path = query.get('path');
  const heading = useRef(null);
  useEffect(() => path !== null && heading.current?.focus(), [path]);
  const pick = (value) => change({ path: value === path ? null : value });
  return html`
    <div class="gap-top">
      ${path !== null && html`<section aria-label="Zones of the page"><h2 class="page-title" tabindex="-1" ref=${heading}><bdi>${path}</bdi></h2>${FILTERS.some((name) => query.has(name)) && html`<${Notice}>The filters do not apply to zones. These are the numbers of all visitors.<//>`}<${PageZones} site=${site} path=${path} range=${range} query=${query} /></section>`}
      <p class="dim lead small">Choose a page to see the variants that it showed.</p>
      <div class="cards">
        ${[TOPS[0], ...BOUNDS].map((list) => html`<${PageList} key=${list.of} ...${{ ...list, question, path, pick }} query=${pressed(query, path)} />`)}
      </div>
    </div>
  `;
}

function PageList({ question, pick, ...list }) {
  const [limit, setLimit] = useState(FIRST_ROWS);
  const next = limit < MORE_ROWS ? MORE_ROWS : MOST_ROWS;
  const answer = useAnswer(url('insights/top', { ...question, of: list.of, limit }));
  const more = (hidden) => hidden > 0 && limit < MOST_ROWS && html`<button type="button" class="quiet" onClick=${() => setLimit(next)}>Show up to ${count(next)}</button>`;
  return html`<${Card} title=${list.title}><${Answer} of=${answer}>${(data) => html`<${Top} ...${list} data=${data} filter="path" onPick=${pick}>${more}<//>`}<//><//>`;
}

const pressed = (query, path) => ({ getAll: (name) => (name === 'path' ? [path] : query.getAll(name)) });

function PageZones({ site, path, range, query }) {
  const address = url('insights/zones', { site: site.site, page: path, ...range, bots: query.get('bots') });
  const answer = useAnswer(address);
  return html`
    <${Answer} of=${answer}>
      ${(data) => html`
        ${data.zones.length === 0 && html`<${Empty}>This page has no zone with variants.<//>`}
        <div class="cards two">${data.zones.map((zone) => html`<${Zone} key=${zone.zone} zone=${zone} />`)}</div>
        <${Footer} data=${data} csv=${() => download(address, 'zones.csv', 'text/csv')} />
      `}
    <//>
  `;
}

function Zone({ zone: { zone, nested, rules, comparable, variants } }) {
  const known = variants.filter(({ visitors }) => visitors !== null);
  const all = known.reduce((total, { visitors }) => total + visitors, 0);
  const columns = [
    { name: 'Variant', isHead: true, of: ({ key }) => html`<${Stranger} text=${key} />` },
    { name: 'Visitors', isNumber: true, of: ({ visitors }) => count(visitors) },
    { name: 'Views', isNumber: true, of: ({ views }) => count(views) },
    { name: 'Share', isNumber: true, of: ({ visitors }) => percent(all > 0 && visitors !== null ? visitors / all : null) },
  ];
  return html`
    <${Card} title=${html`Zone <bdi>${zone}</bdi>`}
      actions=${html`<${Pill} tone=${comparable ? 'good' : 'neutral'}>${comparable ? 'an experiment' : 'not comparable'}<//>`}>
      ${nested && html`<p class="dim small">This zone is part of a variant. An event does not say whether its default was shown.</p>`}
      <${Scroll} label=${`Variants of ${zone}`}><${Table} label=${`Variants of ${zone}`} columns=${columns} rows=${variants} keyOf=${({ key }) => key} /><//>
      <${Details} summary="What visitors did afterwards">${() => variants.map((variant) => html`<${Followed} key=${variant.key} variant=${variant} />`)}<//>
      ${!comparable && html`<${Experiment} zone=${zone} rules=${rules} variants=${variants} />`}
      ${keysOf(rules).map((key) => html`<p key=${key} class="small gap-top"><a href=${pageUrl('experiments', { key })}>Result of the experiment <bdi>${key}</bdi></a></p>`)}
    <//>
  `;
}

// Returns the keys of the experiments that decide some visitors of a zone.
const keysOf = (rules) => [...new Set((rules ?? []).flatMap(({ experiment }) => experiment?.key ?? []))];

// The default of a nested zone has no numbers.
function Followed({ variant: { key, followed, more } }) {
  const rows = (followed ?? []).map(({ event, visitors }) => ({ value: event, numbers: [visitors] }));
  return html`
    <h3 class="gap-top">After <bdi>${key}</bdi></h3>
    ${rows.length > 0 && html`<${Bars} label=${`Events after ${key}`} unit="Event" columns=${['Visitors']} rows=${rows} />`}
    ${rows.length === 0 && html`<p class="dim small">${followed ? 'No event.' : 'Not known.'}</p>`}
    ${more > 0 && html`<p class="dim small more">and ${count(more)} more events</p>`}
  `;
}

const TREATED = 0.9;

// Returns the rule that makes the first chosen variant of a zone an experiment among the visitors that the rule selects.
function experimentRule(zone, rules, variants) {
  const rule = (rules ?? []).find((one) => one.variant && (one.audience || one.when));
  const variant = rule?.variant ?? variants.find(({ key }) => key !== 'default')?.key;
  if (!variant) return null;
  const experiment = {
    key: `${zone}-${variant}`.slice(0, 64),
    variants: ['default', variant],
    weights: [Number((1 - TREATED).toFixed(2)), TREATED],
  };
  const when = rule?.audience ? { $audience: rule.audience } : rule?.when;
  return when && Object.keys(when).length > 0 ? { experiment, when } : { experiment };
}

function Experiment({ zone, rules, variants }) {
  const rule = experimentRule(zone, rules, variants);
  return html`
    <${Notice}>
      The visitors of these variants differed before they saw them, so their numbers are <b>not comparable</b>.
      ${rule && html` To measure a variant, replace its rule by this one. It shows the default to every tenth visitor of the same audience.`}
    <//>
    ${rule && html`<${Code} label="Rule of an experiment" text=${JSON.stringify(rule, null, 1).replace(/\n\s*/g, ' ')} />`}
  `;
}

// Audiences: each with its condition in words and its size now.

export function Audiences({ site }) {
  const address = url('insights/audiences', { site: site.site });
  const answer = useAnswer(address);
  return html`
    <div class="gap-top">
      <${Answer} of=${answer}>
        ${(data) => html`
          <p class="dim lead">
            ${count(data.profiles)} profiles are in memory, counted at ${clockTime(data.at, site.timeZone)}. A size is a range if the condition
            asks for the next request too, such as its URL.
            <${Csv} run=${() => download(address, `audiences-${site.site}.csv`, 'text/csv')} />
          </p>
          ${data.audiences.length === 0 && html`<${Empty}>The site has no audiences.<//>`}
          <div class="cards">${data.audiences.map((audience) => html`<${Audience} key=${audience.name} audience=${audience} profiles=${data.profiles} />`)}</div>
        `}
      <//>
    </div>
  `;
}

const rangeInWords = (least, most, words) => (least === most ? words(least) : `${words(least)} – ${words(most)}`);

function Audience({ audience: { name, condition, atLeast, atMost }, profiles }) {
  const share = (value) => (profiles > 0 ? value / profiles : 0);
  // The profiles say nothing: each one is in the audience with some requests and not with others.
  const isOpen = atLeast === 0 && atMost === profiles && profiles > 0;
  const size = rangeInWords(atLeast, atMost, count);
  return html`
    <${Card} title=${html`<${Stranger} text=${name} />`}>
      <div class="audience-size"><b>${isOpen ? 'Any profile' : size}</b> <span class="dim small">${isOpen ? 'the request decides' : `${rangeInWords(share(atLeast), share(atMost), percent)} of profiles`}</span></div>
      <svg class="size" aria-hidden="true" viewBox="0 0 100 6" preserveAspectRatio="none">
        <rect class="track" width="100" height="6" />
        <rect class="most" width=${100 * share(atMost)} height="6" />
        <rect class="least" width=${100 * share(atLeast)} height="6" />
      </svg>
      <p class="small"><bdi>${capital(conditionInWords(condition))}.</bdi></p>
      <${Details} summary="As written">${() => html`<${Json} label=${`Condition of ${name}`} value=${condition} />`}<//>
    <//>
  `;
}
