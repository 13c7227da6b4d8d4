// One visitor: its profile, records, explained pages, export and erasure.
import { html, useEffect, useState } from './vendor/preact-htm.js';
import { ago, change, count, counted, dateTime, named, pageUrl, request, saveAs, url, useAnswer } from './core.js';
import { Dialog } from './dialog.js';
import { Explain, Past } from './explain.js';
import { FindById, KINDS } from './find.js';
import { Answer, Card, Details, Empty, Field, Json, Notice, Pill, Scroll, Stranger, Table, Tile } from './parts.js';
import { may } from './rights.js';

const RECORDS_PER_PAGE = 50;

// The parameters of this page that the list of visitors does not have.
const NO_VISITOR = { anonId: null, userId: null, seq: null, route: null, url: null, locale: null, country: null, device: null };

// Returns the parameters that name the visitor of the state, or null.
const visitorOf = (query) => KINDS.map(([kind]) => query.get(kind) && { [kind]: query.get(kind) }).find(Boolean) ?? null;

export function Visitors({ site, query }) {
  const visitor = visitorOf(query);
  const key = JSON.stringify(visitor);
  return html`
    ${may('visitors', site.site) && html`<p class="crumb"><a href=${pageUrl('visitors', NO_VISITOR)}>All visitors</a></p>`}
    <${FindById} key=${`find ${key}`} visitor=${visitor} />
    ${!may('visitors', site.site) && html`<p class="dim small">Your role explains decisions for a visitor without a past. The ID decides only the arm of an experiment.</p>`}
    ${visitor ? html`<${may('visitors', site.site) ? Visitor : InventedVisitor} key=${key} ...${{ site, visitor, query }} />` : html`<${Empty}>Enter the ID of a visitor, as your pages send it. Your own anonymous ID is in a cookie of your website, or in its requests.<//>`}
  `;
}

const InventedVisitor = ({ site, visitor, query }) => html`<${Explain} ...${{ site, visitor, query }} recorded=${null} />`;

function Visitor({ site, visitor, query }) {
  const [erased, setErased] = useState(null);
  const answer = useAnswer(url('visitors', { site: site.site, v: erased?.seq }, visitor));
  return html`
    ${erased && html`<${Notice} tone="good">Erased: ${counted(erased.erased.records, 'record')}, and ${counted(erased.erased.redacted, 'record')} of other visitors redacted. Nothing of the visitor is left on disk.${erased.pending?.length > 0 && html` These nodes have not confirmed yet: <bdi>${erased.pending.join(', ')}</bdi>.`}<//>`}
    <${Answer} of=${answer}>
      ${(data) => html`
        <${Profile} ...${{ data, site, visitor }} onErased=${setErased} />
        <${Explain} ...${{ site, visitor, query }} recorded=${data.context} />
        ${query.has('seq') && html`<${Past} key=${query.get('seq')} ...${{ site, visitor }} seq=${query.get('seq')} />`}
        <${Timeline} key=${erased?.seq ?? 0} ...${{ site, visitor }} />
      `}
    <//>
  `;
}

function Profile({ data, site, visitor, onErased }) {
  const { profile, known, aliases } = data;
  const facts = profile.visitor;
  const [isErasing, setErasing] = useState(false);
  const [id] = Object.values(visitor);
  return html`
    <div class="row profile-head">
      <h2 class="grow"><bdi>${id}</bdi> ${!known && html`<${Pill}>no profile<//>`}</h2>
      ${may('exports', site.site) && html`
        <${Export} ...${{ site, visitor }} />
        <button type="button" class="danger" onClick=${() => setErasing(true)}>Erase …</button>
      `}
    </div>
    ${isErasing && html`<${Erase} ...${{ site, visitor, id, onErased }} onClose=${() => setErasing(false)} />`}
    ${
      known &&
      html`
      <div class="tiles">
        <${Tile} label="Visits" value=${facts.visits} />
        <${Tile} label="Page views" value=${facts.pageViews} />
        <${Tile} label="Events" value=${facts.events} />
        <${Tile} label="Last seen" value=${ago(facts.lastSeen)} note=${dateTime(facts.lastSeen, site.timeZone)} />
        <${Tile} label="First seen" value=${ago(facts.firstSeen)} note=${dateTime(facts.firstSeen, site.timeZone)} />
      </div>
      <div class="cards bottom">
        <${Card} title="IDs and traits"><${VisitorFacts} rows=${factsOf(facts, aliases, profile)} /><//>
        <${Card} title="Pages"><${Counts} unit="Path" label="Pages of the visitor" counts=${profile.pages} site=${site} /><//>
        <${Card} title="Events"><${Counts} unit="Event" label="Events of the visitor" counts=${profile.events} site=${site} /><//>
      </div>
    `
    }
  `;
}

const touchInWords = (touch) =>
  touch &&
  Object.entries(touch)
    .filter(([, value]) => value !== null && value !== '')
    .map(([name, value]) => `${name}: ${value}`)
    .join(', ');

function factsOf(facts, aliases, profile) {
  const traits = Object.entries(profile.traits).map(([name, value]) => [name, typeof value === 'string' ? value : JSON.stringify(value)]);
  return [
    ['user ID', facts.userId],
    ['anonymous IDs', aliases.join(', ')],
    ['first touch', touchInWords(profile.firstTouch)],
    ['last touch', touchInWords(profile.lastTouch)],
    ...traits,
  ].filter(([, value]) => value);
}

const VisitorFacts = ({ rows }) => html`
  <${Scroll} label="IDs and traits"><dl>${rows.map(([name, value]) => html`<dt key=${name}><bdi>${name}</bdi></dt><dd><bdi>${value}</bdi></dd>`)}</dl><//>
`;

function Counts({ unit, label, counts, site }) {
  const rows = Object.entries(counts).sort(([, a], [, b]) => b.count - a.count || b.last - a.last);
  if (rows.length === 0) return html`<${Empty}>None.<//>`;
  const columns = [
    { name: unit, isHead: true, of: ([name]) => html`<${Stranger} text=${name} />` },
    { name: 'Count', isNumber: true, of: ([, one]) => count(one.count) },
    { name: 'Last', isNumber: true, of: ([, one]) => html`<span title=${dateTime(one.last, site.timeZone)}>${ago(one.last)}</span>` },
  ];
  return html`<${Scroll} label=${label}><${Table} label=${label} columns=${columns} rows=${rows} keyOf=${([name]) => name} /><//>`;
}

function Export({ site, visitor }) {
  const [state, setState] = useState('');
  const run = async () => {
    setState('Exporting …');
    try {
      const { parts, damaged } = await readExport(site, visitor);
      saveAs('visitor.ndjson', parts);
      setState(damaged > 0 ? `Incomplete: ${counted(damaged, 'damaged place')} of the log. Run parallax check.` : '');
    } catch (problem) {
      setState(problem.message);
    }
  };
  return html`<span class="dim small" role="status">${state}</span><button type="button" onClick=${run}>Export</button>`;
}

// A long export has several parts. Each names the place where the next one begins.
async function readExport(site, visitor) {
  const parts = [];
  let damaged = 0;
  for (let since = null; ;) {
    const response = await request(url('visitors/export', { site: site.site, since }, visitor));
    parts.push(await response.text());
    damaged += Number(response.headers.get('X-Damaged'));
    since = response.headers.get('X-Next-Since');
    if (since === null) return { parts, damaged };
  }
}

function Erase({ site, visitor, id, onErased, onClose }) {
  const [typed, setTyped] = useState('');
  const [state, setState] = useState({ isRunning: false, problem: null });
  const submit = async (event) => {
    event.preventDefault();
    setState({ isRunning: true, problem: null });
    try {
      const response = await request(url('visitors', { site: site.site }, visitor), { method: 'DELETE' });
      onErased(await response.json());
      onClose();
    } catch (problem) {
      setState({ isRunning: false, problem: problem.message });
    }
  };
  return html`
    <${Dialog} title="Erase this visitor" isBusy=${state.isRunning} onClose=${onClose}>
      <p>This deletes every record of the visitor from the disk, and the profile. It cannot be undone, and all numbers change.</p>
      <form class="stack" onSubmit=${submit}>
        <p class="small">Type the ID to confirm: <code><bdi>${id}</bdi></code></p>
        <${Field} label="ID of the visitor" value=${typed} autocomplete="off" spellcheck="false" autofocus onInput=${(event) => setTyped(event.currentTarget.value)} />
        ${state.problem && html`<${Notice} tone="bad">${state.problem}<//>`}
        <div class="row">
          <button type="submit" class="danger" disabled=${typed !== id || state.isRunning}>Erase for ever</button>
          <button type="button" disabled=${state.isRunning} onClick=${(event) => event.currentTarget.closest('dialog').close()}>Cancel</button>
          <span class="dim" role="status">${state.isRunning && 'Erasing …'}</span>
        </div>
      </form>
    <//>
  `;
}

// The records, newest first. `pages` holds the pages that were asked for.
function Timeline({ site, visitor }) {
  const [before, setBefore] = useState(null);
  const [records, setRecords] = useState([]);
  const answer = useAnswer(url('visitors/records', { site: site.site, limit: RECORDS_PER_PAGE, before }, visitor));
  useEffect(() => {
    if (answer.data)
      setRecords((last) => [
        ...last.filter(({ seq }) => !answer.data.records.some((record) => record.seq === seq)),
        ...answer.data.records,
      ]);
  }, [answer.data]);
  return html`
    <${Card} title="Records" note="newest first">
      <ol class="timeline">${records.map((record) => html`<${Entry} key=${record.seq} record=${record} site=${site} />`)}</ol>
      <${Answer} of=${answer}>
        ${(data) => html`
          ${records.length + data.records.length === 0 && !data.next && html`<${Empty}>No record is kept.<//>`}
          ${data.next && html`<button type="button" onClick=${() => setBefore(data.next)}>Earlier records</button>`}
        `}
      <//>
    <//>
  `;
}

const isPresent = (value) => value !== null && value !== undefined;

const Entry = ({ record, site }) => html`
  <li>
    <time class="dim small" datetime=${record.timestamp}>${dateTime(record.timestamp, site.timeZone)}</time>
    <div>
      <${Pill}>${record.type}<//> <b><bdi>${record.type === 'page' ? record.path : (record.event ?? record.name ?? record.userId ?? '')}</bdi></b>
      ${record.bot && html` <${Pill}>crawler<//>`}
      <div class="dim small"><bdi>${detailsOf(record).join(' · ')}</bdi></div>
      ${hasDecision(record) && html`<button type="button" class="small" onClick=${() => change({ seq: record.seq })}>Why this page?</button>`}
      <${Details} summary="Record">${() => html`<${Json} label=${`Record ${record.seq}`} value=${record} />`}<//>
    </div>
  </li>
`;

// A page or an exposure, which the server can explain.
const hasDecision = (record) => record.type === 'page' || isPresent(record.variants) || isPresent(record.experiments);

const detailsOf = (record) =>
  [
    record.type !== 'page' && record.path,
    isPresent(record.variants) && `saw ${record.variants || 'the default page'}`,
    record.experiments && `experiments ${record.experiments}`,
    record.source ?? record.referrerHost,
    record.campaign,
    [record.device, record.browser, record.os].filter(Boolean).join(', '),
    record.country && named('country', record.country),
  ].filter(Boolean);
