// Pages: which are seen, where visits begin and end, and which variants of its zones a page showed.
import { html, useEffect, useRef, useState } from './vendor/preact-htm.js';
import { Bars } from './bars.js';
import { Against, numberIn, pairOf, withChange } from './compare.js';
import { FILTERS, change, count, download, pageUrl, percent, url, useAnswer } from './core.js';
import { BOUNDS, MOST_ROWS, TOPS, Top, questionOf } from './lists.js';
import { Answer, Card, Code, Details, Empty, Footer, Notice, Pill, Scroll, Stranger, Table } from './parts.js';

const FIRST_ROWS = 25;
const MORE_ROWS = 200;

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
  const more = (hidden) =>
    hidden > 0 &&
    limit < MOST_ROWS &&
    html`<button type="button" class="quiet" onClick=${() => setLimit(next)}>Show up to ${count(next)}</button>`;
  return html`<${Card} title=${list.title}><${Answer} of=${answer}>${(data) => html`<${Top} ...${list} data=${data} filter="path" onPick=${pick}>${more}<//>`}<//><//>`;
}

const pressed = (query, path) => ({ getAll: (name) => (name === 'path' ? [path] : query.getAll(name)) });

function PageZones({ site, path, range, query }) {
  const address = url('insights/zones', { site: site.site, page: path, ...range, compare: query.get('compare'), bots: query.get('bots') });
  const answer = useAnswer(address);
  return html`
    <${Answer} of=${answer}>
      ${(data) => html`
        ${data.zones.length === 0 && html`<${Empty}>This page has no zone with variants.<//>`}
        <${Against} data=${data} timeZone=${site.timeZone} />
        <div class="cards two">${data.zones.map((zone) => html`<${Zone} key=${zone.zone} zone=${zone} data=${data} />`)}</div>
        <${Footer} data=${data} csv=${() => download(address, 'zones.csv', 'text/csv')} />
      `}
    <//>
  `;
}

// Returns a number of a variant in one range of the answer. Variants that only events name can be beyond the end of a list.
const inVariant = (zone, key, of) => ({ zones, more }) =>
  numberIn(zones, more, (one) => one.zone === zone, ({ variants, more }) => numberIn(variants, more, (one) => one.key === key, of));

const visitorsOf = (variants) => variants.reduce((total, { visitors }) => total + (visitors ?? 0), 0);

function Zone({ data, zone: { zone, nested, rules, comparable, variants } }) {
  const all = visitorsOf(variants);
  const change = (key, text, of) => withChange(text, pairOf(data, inVariant(zone, key, of)));
  const columns = [
    { name: 'Variant', isHead: true, of: ({ key }) => html`<${Stranger} text=${key} />` },
    { name: 'Visitors', isNumber: true, of: ({ key, visitors }) => change(key, count(visitors), (one) => one.visitors) },
    { name: 'Views', isNumber: true, of: ({ key, views }) => change(key, count(views), (one) => one.views) },
    { name: 'Share', isNumber: true, of: ({ visitors }) => percent(all > 0 && visitors !== null ? visitors / all : null) },
  ];
  return html`
    <${Card} title=${html`Zone <bdi>${zone}</bdi>`}
      actions=${html`<${Pill} tone=${comparable ? 'good' : 'neutral'}>${comparable ? 'an experiment' : 'not comparable'}<//>`}>
      ${nested && html`<p class="dim small">This zone is part of a variant. An event does not say whether its default was shown.</p>`}
      <${Scroll} label=${`Variants of ${zone}`}><${Table} label=${`Variants of ${zone}`} columns=${columns} rows=${variants} keyOf=${({ key }) => key} /><//>
      <${Details} summary="What visitors did afterwards">${() => variants.map((variant) => html`<${Followed} key=${variant.key} ...${{ data, zone, variant }} />`)}<//>
      ${!comparable && html`<${Experiment} zone=${zone} rules=${rules} variants=${variants} />`}
      ${keysOf(rules).map((key) => html`<p key=${key} class="small gap-top"><a href=${pageUrl('experiments', { key })}>Result of the experiment <bdi>${key}</bdi></a></p>`)}
    <//>
  `;
}

// Returns the keys of the experiments that decide some visitors of a zone.
const keysOf = (rules) => [...new Set((rules ?? []).flatMap(({ experiment }) => experiment?.key ?? []))];

// The default of a nested zone has no numbers.
function Followed({ data, zone, variant: { key, followed, more } }) {
  const ofEvent = (event) => ({ followed, more }) => numberIn(followed, more, (one) => one.event === event, ({ visitors }) => visitors);
  const pair = (event) => pairOf(data, inVariant(zone, key, ofEvent(event)));
  const rows = (followed ?? []).map(({ event, visitors }) => ({ value: event, numbers: [visitors], pair: pair(event) }));
  return html`
    <h3 class="gap-top">After <bdi>${key}</bdi></h3>
    ${rows.length > 0 && html`<${Bars} label=${`Events after ${key}`} unit="Event" columns=${['Visitors']} rows=${rows} isCompared=${!!data.compared} />`}
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
