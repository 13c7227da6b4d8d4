// The publications of a site: marks on a chart, and a list below it.
import { html } from './vendor/preact-htm.js';
import { change, clockTime, count, counted, day, pageUrl, url, useAnswer } from './core.js';
import { Chart, Scroll } from './parts.js';

const NOUNS = { experiments: 'experiment', zones: 'zone', audiences: 'audience', goals: 'goal', routes: 'page' };

// A version is often a time in seconds. Its last digits tell two of them apart.
const shortVersion = (version) => `v${version.length > 6 ? `…${version.slice(-4)}` : version}`;

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

// Returns the ranges before and after a publication. Both have the same length: from the publication to the next one, or to the end of the
// range of the chart, or to the last full hour. More than a day is cut to full days, so that both ranges have the same times of day.
// Undefined if the version was not served for so long that a range is possible.
export function beforeAndAfter(servedFrom, nextServedFrom, to, now) {
  const start = Date.parse(servedFrom);
  const lastHour = Math.floor(now / HOUR_MS) * HOUR_MS;
  const end = Math.min(nextServedFrom ? Date.parse(nextServedFrom) : lastHour, Date.parse(to));
  const length = end - start > DAY_MS ? Math.floor((end - start) / DAY_MS) * DAY_MS : end - start;
  if (length <= 0) return undefined;
  const time = (ms) => new Date(ms).toISOString();
  return { from: servedFrom, to: time(start + length), compare: `${time(start - length)}..${servedFrom}`, days: null, by: null };
}

function openDetails(id) {
  const details = document.getElementById(id);
  details?.setAttribute('open', '');
  details?.firstElementChild.focus();
}

// A chart with the publications between `from` and `to`. With `compares`, a publication leads to the numbers before and after it.
// Otherwise, and within its first hour, it opens its details.
export function PublishedChart({ site, from, to, marks = [], compares, ...chart }) {
  const { data, error, isLoading } = useAnswer(url('insights/publications', { site: site.site, from, to }));
  // While another range loads, `data` has the publications of the last one.
  const publications = (!isLoading && data?.publications) || [];
  const ranges = publications.map((one, at) => compares && beforeAndAfter(one.servedFrom, publications[at - 1]?.servedFrom, to, Date.now()));
  // The present day has its point at midnight, so a later publication is drawn there.
  const own = publications.map((one, at) => ({
    t: Math.min(Date.parse(one.servedFrom) / 1000, chart.t.at(-1)),
    label: shortVersion(one.version),
    isQuiet: true,
    pick: () => (ranges[at] ? change(ranges[at]) : openDetails(one.servedFrom)),
  }));
  return html`
    <${Chart} ...${chart} marks=${[...own, ...marks]} />
    ${error && html`<p class="dim small">The publications are not known: ${error.message}</p>`}
    ${
      publications.length > 0 &&
      html`
      <p class="dim small gap-top">Dotted lines: the server began to serve another version.${compares && ' “Before and after” compares the time since then with as long a time before: up to the next version or the last full hour, and of more than a day only full days.'}</p>
      <${Scroll} label="Publications">
        <ul class="publications">
          ${publications.map((one, at) => html`<${Publication} key=${one.servedFrom} ...${{ site, one }} ranges=${ranges[at]} />`)}
          ${data.more > 0 && html`<li>and ${counted(data.more, 'earlier version')}</li>`}
        </ul>
      <//>
    `
    }
  `;
}

function Publication({ site, one: { version, servedFrom, changes, missing }, ranges }) {
  const name = `Version ${version}, ${day(servedFrom, site.timeZone)}, ${clockTime(servedFrom, site.timeZone)}`;
  const changed = changes && inWords(changes);
  const words = changes ? changed || 'no change of pages, rules or goals' : missing.map(({ detail }) => detail).join(' ');
  return html`
    <li>
      ${!changed && html`${name}: ${words} `}
      ${ranges && html`<a href=${pageUrl('overview', ranges)}>Before and after version ${version}</a>`}
      ${changed && html`<details id=${servedFrom}><summary>${name}: ${words}</summary><${Changes} changes=${changes} ranges=${ranges} /></details>`}
    </li>
  `;
}

function inWords({ holdout, ...lists }) {
  const changed = Object.keys(NOUNS).filter((list) => lists[list].total > 0);
  const parts = changed.map((list) => counted(lists[list].total, NOUNS[list]));
  return [...parts, ...(holdout ? ['holdout'] : [])].join(', ');
}

// A page with a changed zone has a link to its variants before and after.
const PathLink = ({ path, ranges }) => (ranges ? html`<a href=${pageUrl('pages', { ...ranges, path })}><bdi>${path}</bdi></a>` : html`<bdi>${path}</bdi>`);

const Changes = ({ changes: { holdout, ...lists }, ranges }) => html`
  <ul class="dim small">
    ${Object.entries(NOUNS).map(([list, noun]) => {
      const { total, first } = lists[list];
      return html`
        ${first.map(({ name, changes, text, paths }) => html`<li>${noun} <bdi>${name}</bdi>${paths && html` of ${paths.map((path, at) => html`${at > 0 && ', '}<${PathLink} path=${path} ranges=${ranges} />`)}`}: <bdi>${text ?? changes.join(', ')}</bdi></li>`)}
        ${total > first.length && html`<li>and ${count(total - first.length)} more of ${counted(total, noun)}</li>`}
      `;
    })}
    ${holdout && html`<li>holdout of the site: <bdi>${holdout.text}</bdi></li>`}
  </ul>
`;
