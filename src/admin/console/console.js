// The console: its header, its pages, and the question for the token.
import { html, render, useEffect, useErrorBoundary, useState } from './vendor/preact-htm.js';
import {
  FILTERS,
  POLL_MS,
  Problem,
  change,
  hasToken,
  isLinked,
  isoDate,
  onTokenNeeded,
  pageUrl,
  readState,
  shiftDate,
  signIn,
  signOut,
  toggleFilter,
  tomorrow,
  useAnswer,
  useLocation,
} from './core.js';
import { Answer, Empty, Notice, Select } from './parts.js';
import { may, setGrants } from './rights.js';

const isOfRange = { area: 'numbers', hasRange: true, hasFilters: true };

// Each page with its title, the module that has it, and the name of its component there.
const PAGES = {
  overview: { title: 'Overview', load: () => import('./overview.js'), component: 'Overview', ...isOfRange },
  list: { title: 'Whole list', load: () => import('./lists.js'), component: 'List', ...isOfRange, isLinked: false },
  sources: { title: 'Sources', load: () => import('./sources.js'), component: 'Sources', ...isOfRange },
  funnels: { title: 'Funnels', load: () => import('./funnels.js'), component: 'Funnels', ...isOfRange },
  retention: { title: 'Retention', load: () => import('./retention.js'), component: 'Retention', ...isOfRange },
  paths: { title: 'Paths', load: () => import('./paths.js'), component: 'Paths', ...isOfRange },
  pages: { title: 'Pages', load: () => import('./pages.js'), component: 'Pages', ...isOfRange },
  experiments: { title: 'Experiments', load: () => import('./experiments.js'), component: 'Experiments', area: 'numbers' },
  experiment: { title: 'Experiments', load: () => import('./experiment.js'), component: 'Experiment', area: 'numbers', isLinked: false },
  audiences: { title: 'Audiences', load: () => import('./audiences.js'), component: 'Audiences', area: 'audiences' },
  visitors: { title: 'Visitors', load: () => import('./people.js'), component: 'People', ...isOfRange, area: 'visitors' },
  visitor: { title: 'Visitors', load: () => import('./visitors.js'), component: 'Visitors', area: 'decisions', isLinked: false },
  publishing: { title: 'Publishing', load: () => import('./operations.js'), component: 'Publishing', needsNoSite: true },
  health: { title: 'Health', load: () => import('./operations.js'), component: 'Health', area: 'metrics', needsNoSite: true },
};

// Returns whether the rights for a site show a page. Someone who sees no visitors may still have decisions explained for invented ones.
const mayOpen = (page, site) => !PAGES[page].area || may(PAGES[page].area, PAGES[page].needsNoSite ? undefined : site?.site);

const linkedPages = (site) => Object.keys(PAGES).filter((page) => PAGES[page].isLinked !== false && (mayOpen(page, site) || (page === 'visitors' && mayOpen('visitor', site))));

const RANGES = [
  ['1', 'Today'],
  ['7', 'Last 7 days'],
  ['30', 'Last 30 days'],
  ['90', 'Last 90 days'],
  ['365', 'Last 365 days'],
  ['dates', 'Dates …'],
];

const DEFAULT_DAYS = '30';

// A person can write another number of days into the URL.
const daysOf = (query) => (/^[1-9]\d{0,3}$/.test(query.get('days')) ? query.get('days') : DEFAULT_DAYS);

// Returns the parameters of a question for the range, as the API takes them, which refuses wrong dates. Whole days are
// compared with as many before.
function rangeOf(query, timeZone) {
  if (query.has('from') || query.has('to')) return { from: query.get('from'), to: query.get('to') };
  const to = tomorrow(Date.now(), timeZone);
  return { from: shiftDate(to, -daysOf(query)), to };
}

const isTime = (text) => text?.includes('T') && !Number.isNaN(Date.parse(text));

// Returns the first and the last day. They are closed at both ends for a person, and `to` is not part of the range of the API. A time
// shows its day.
const daysOfRange = ({ from, to }, timeZone) => [
  isTime(from) ? isoDate(from, timeZone) : from,
  isTime(to) ? isoDate(Date.parse(to) - 1, timeZone) : shiftDate(to, -1),
];

// Two date fields.
function Dates({ names, from, to, timeZone, onChange }) {
  const [first, last] = daysOfRange({ from, to }, timeZone);
  const set = (of) => (event) => event.currentTarget.value && onChange(...of(event.currentTarget.value));
  const field = (name, value, of) =>
    html`<label class="field"><span class="hidden">${name}</span><input type="date" value=${value} onChange=${set(of)} /></label>`;
  return html`
    ${field(names[0], first, (value) => [value, to])}
    ${field(names[1], last, (value) => [from, shiftDate(value, 1)])}
  `;
}

function RangePicker({ query, range, timeZone }) {
  const isOpen = query.has('from') || query.has('to');
  const days = daysOf(query);
  const ranges = RANGES.some(([key]) => key === days) ? RANGES : [...RANGES, [days, `Last ${days} days`]];
  const pick = (days) =>
    change(days === 'dates' ? { ...range, days: null } : { from: null, to: null, days: days === DEFAULT_DAYS ? null : days });
  return html`
    <${Select} label="Range" value=${isOpen ? 'dates' : days} options=${ranges} onChange=${pick} />
    ${isOpen && html`<${Dates} names=${['First day', 'Last day']} ...${range} timeZone=${timeZone} onChange=${(from, to) => change({ from, to })} />`}
  `;
}

const COMPARISONS = [
  ['none', 'Compare with nothing'],
  ['previous', 'With the period before'],
  ['dates', 'With dates …'],
];

// Returns as many days directly before the range, for a person to change. A range without dates in the URL is compared as the API does.
function daysBefore({ from, to }) {
  const days = Math.ceil((Date.parse(to) - Date.parse(from)) / 86_400_000);
  return days > 0 ? `${shiftDate(from, -days)}..${from.slice(0, 10)}` : 'previous';
}

// The API compares the overview with the period before, and the other pages with nothing.
function ComparePicker({ page, query, range, timeZone }) {
  const value = query.get('compare') ?? (page === 'overview' ? 'previous' : 'none');
  const [from, to] = value.split('..');
  const set = (from, to) => change({ compare: `${from}..${to}` });
  return html`
    <${Select} label="Compare with" value=${to ? 'dates' : value} options=${COMPARISONS} onChange=${(key) => change({ compare: key === 'dates' ? daysBefore(range) : key })} />
    ${to && html`<${Dates} names=${['First day compared', 'Last day compared']} ...${{ from, to, timeZone }} onChange=${set} />`}
  `;
}

// A person can write the key of another segment into the URL. The answers say that it is unknown.
function SegmentPicker({ query, segments }) {
  const chosen = query.get('segment') ?? '';
  const options = [['', 'All visitors'], ...segments.map(({ key, name }) => [key, name])];
  const known = options.some(([key]) => key === chosen) ? options : [...options, [chosen, chosen]];
  return html`<${Select} label="Segment" value=${chosen} options=${known} onChange=${(key) => change({ segment: key || null })} />`;
}

function Chips({ query }) {
  const set = FILTERS.filter((name) => name !== 'segment').flatMap((name) => query.getAll(name).map((value) => [name, value]));
  if (set.length === 0) return null;
  return html`
    <ul class="chips" aria-label="Filters">
      ${set.map(
        ([name, value]) => html`
        <li key=${`${name} ${value}`}>
          <button type="button" class="chip" disabled=${isLinked} onClick=${() => toggleFilter(name, value)} aria-label=${`Remove the filter ${name}: ${value}`}>
            <span class="dim">${name}</span> <bdi>${value}</bdi> ${!isLinked && html`<span aria-hidden="true">×</span>`}
          </button>
        </li>
      `,
      )}
    </ul>
  `;
}

// Opens the dialog of the shared links. Only pages of numbers can be shared.
function ShareButton({ page, site }) {
  const [dialog, setDialog] = useState(null);
  const { area, title } = PAGES[page];
  if (!['numbers', 'audiences'].includes(area) || !may('links', site.site)) return null;
  const open = () => import('./share.js').then(({ Share }) => setDialog({ Share }), () => location.reload());
  return html`
    <button type="button" class="quiet" onClick=${open}>Share …</button>
    ${dialog && html`<${dialog.Share} site=${site} title=${title} onClose=${() => setDialog(null)} />`}
  `;
}

function Header({ page, query, sites, site, range, name }) {
  const { hasRange, hasFilters } = PAGES[page];
  return html`
    <header>
      <div class="bar-top">
        <a class="brand" href=${pageUrl(linkedPages(site)[0] ?? 'overview')}>Parallax</a>
        ${sites.length > 0 && html`<${Select} label="Site" value=${site?.site} options=${sites.map((one) => [one.site, one.name ?? one.site])} onChange=${(id) => change({ site: id })} />`}
        ${site?.version && html`<span class="dim small version">version ${site.version}</span>`}
        <span class="spring"></span>
        ${hasFilters && site && (site.segments.length > 0 || query.has('segment')) && html`<${SegmentPicker} query=${query} segments=${site.segments} />`}
        ${hasRange && site && html`<${RangePicker} query=${query} range=${range} timeZone=${site.timeZone} /><${ComparePicker} ...${{ page, query, range }} timeZone=${site.timeZone} />`}
        ${site && html`<${ShareButton} key=${page} page=${page} site=${site} />`}
        ${name && html`<span class="dim small"><bdi>${name}</bdi></span>`}
        ${hasToken() && html`<button type="button" class="quiet" onClick=${() => (signOut(), location.reload())}>Sign out</button>`}
      </div>
      <nav aria-label="Pages">
        ${linkedPages(site).map(
          (key) => html`<a key=${key} href=${pageUrl(key)} aria-current=${PAGES[key].title === PAGES[page].title ? 'page' : undefined}>${PAGES[key].title}</a>`,
        )}
      </nav>
      ${hasFilters && html`<${Chips} query=${query} />`}
    </header>
  `;
}

function TokenForm({ reason, onSignedIn }) {
  const [error, setError] = useState(null);
  const submit = (event) => {
    event.preventDefault();
    const token = new FormData(event.currentTarget).get('token').trim();
    signIn(token).then(onSignedIn, (problem) => setError(problem instanceof Problem ? problem.message : 'The server does not answer.'));
  };
  return html`
    <main class="sign-in">
      <form class="card" onSubmit=${submit}>
        <h1>Parallax</h1>
        <p>${error ? '' : reason}</p>
        ${error && html`<${Notice} tone="bad">${error}<//>`}
        <label class="field">
          <span class="field-label">Token of --admin-token, or of the access file</span>
          <input name="token" type="password" autocomplete="off" required autofocus ref=${(input) => input?.focus()} />
        </label>
        <button type="submit" class="primary">Open the console</button>
        <p class="dim small">This tab keeps the token until you close it. The token is not stored elsewhere.</p>
      </form>
    </main>
  `;
}

const ABSENT = /^No admin token is configured/;

// Returns the key of the page that a state shows. A list and one of its experiments or visitors have the same name in the URL.
function keyOf({ page, query }) {
  if (page === 'experiments' && query.has('key')) return 'experiment';
  if (page === 'visitors' && (query.has('anonId') || query.has('userId'))) return 'visitor';
  return Object.hasOwn(PAGES, page) ? page : 'overview';
}

// Returns the page to show. Without a page in the URL, it is the first one that the rights for the site show.
function shownPage(state, site) {
  const page = keyOf(state);
  if (page === 'visitors' && !mayOpen(page, site) && mayOpen('visitor', site)) return 'visitor';
  return /^#?(\?|$)/.test(location.hash) && !mayOpen(page, site) ? shownFirst(site) : page;
}

const shownFirst = (site) => {
  const [first = 'overview'] = linkedPages(site);
  return first === 'visitors' && !mayOpen(first, site) ? 'visitor' : first;
};

// A page that the role of the person does not show.
function Hidden({ page, site }) {
  const [first] = linkedPages(site);
  return html`
    <${Empty}>
      Your role does not show ${PAGES[page].title}${site && html` for the site <bdi>${site.name ?? site.site}</bdi>`}.
      ${first && html` <a href=${pageUrl(first)}>Open ${PAGES[first].title}</a>`}
    <//>
  `;
}

// Shows one page. The range is computed again when the state changes, and not while a page is looked at. `link` is the shared link that
// was opened.
function Console({ link }) {
  const state = useLocation();
  const { query } = state;
  const access = useAnswer('access', { every: POLL_MS });
  setGrants(access.data?.grants ?? []);
  const answer = useAnswer('sites', { every: POLL_MS });
  const sites = answer.data?.sites ?? [];
  const site = query.has('site') ? sites.find((one) => one.site === query.get('site')) : sites[0];
  const range = site && rangeOf(query, site.timeZone);
  const page = shownPage(state, site);
  useEffect(() => {
    document.title = `${PAGES[page].title} – Parallax`;
  }, [page]);
  const { title, needsNoSite } = PAGES[page];
  return html`
    <a class="skip" href="#main" onClick=${skip}>Skip to the content</a>
    ${linked ? html`<${linked.LinkedHeader} ...${{ site, link, title: PAGES[page].title }} days=${PAGES[page].hasRange && site && daysOfRange(range, site.timeZone)} chips=${PAGES[page].hasFilters && html`<${Chips} query=${query} />`} />` : html`<${Header} ...${{ page, query, sites, site, range, name: access.data?.name }} />`}
    <main id="main" class=${isLinked && 'linked'} tabindex="-1">
      <h1 class="hidden">${title}</h1>
      ${
        (access.data && (needsNoSite || site) && !mayOpen(page, site)) || !access.data
          ? html`<${Answer} of=${access}>${() => html`<${Hidden} ...${{ page, site }} />`}<//>`
          : needsNoSite || site
            ? html`<${Guarded} key=${needsNoSite ? page : `${page} ${site.site}`} page=${page} ...${{ site, query, range, sites: answer }} />`
            : html`<${Answer} of=${answer}>${() => html`<${NoSite} id=${query.get('site')} />`}<//>`
      }
    </main>
  `;
}

// Shows a page. A fault of the console in it leaves the other pages usable, and the page itself with another state.
function Guarded({ page, ...props }) {
  const [error, reset] = useErrorBoundary();
  const module = useModule(page);
  useEffect(() => error && reset(), [props.query]);
  if (error) return html`<${Notice} tone="bad"><strong>The console failed to show this page. </strong><bdi>${error.message}</bdi><//>`;
  if (module.isLost) return html`<${LostModule} />`;
  const Page = module[PAGES[page].component];
  return Page ? html`<${Page} ...${props} />` : html`<p class="empty" role="status">Loading …</p>`;
}

// The modules of the pages that were opened.
const modules = {};

const loadModule = (page) => PAGES[page].load().then((module) => Object.assign(modules, { [page]: module })[page]);

// Returns the module of a page, and {} while it loads. It may have been loaded between the rendering and the effect.
function useModule(page) {
  const [module, setModule] = useState(modules[page] ?? {});
  useEffect(() => {
    loadModule(page).then(setModule, () => setModule({ isLost: true }));
  }, [page]);
  return module;
}

// A browser remembers a failed import, so only a new document tries it again.
const LostModule = () => html`
  <${Notice} tone="bad">
    <strong>No answer. </strong>The console could not load this page. Is the server running, and is the network up?
    <button type="button" class="quiet" onClick=${() => location.reload()}>Load it again</button>
  <//>
`;

// A link to a fragment would change the state.
function skip(event) {
  event.preventDefault();
  document.getElementById('main').focus();
}

const NoSite = ({ id }) => html`
  <${Empty}>
    ${id ? html`No published site has the ID <bdi>${id}</bdi>.` : 'No site is published. Compile one into the snapshots directory:'}
    ${!id && html`<pre>parallax compile my-site -o snapshots/</pre>`}
  <//>
`;

// Asks for the token when the server does, and then shows the same state again.
function App() {
  const [{ reason, session }, setSession] = useState({ reason: null, session: 0 });
  useEffect(() => onTokenNeeded((sentence) => setSession((last) => ({ ...last, reason: sentence }))), []);
  if (linked) return html`<${linked.Linked} hasEnded=${reason} show=${(link) => html`<${Console} link=${link} />`} />`;
  if (reason && ABSENT.test(reason))
    return html`<main class="sign-in"><div class="card"><h1>Parallax</h1><${Notice}>${reason}<//></div></main>`;
  if (reason)
    return html`<${TokenForm} reason=${reason} onSignedIn=${() => setSession((last) => ({ reason: null, session: last.session + 1 }))} />`;
  return html`<${Console} key=${session} />`;
}

// The parts of a shared link. Few people open one.
const linked = isLinked && (await import('./linked.js'));

// The module of the first page loads while the server answers for its sites. A failure is shown when the page is.
loadModule(keyOf(readState())).catch(() => {});
render(html`<${App} />`, document.getElementById('console'));
