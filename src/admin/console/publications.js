// The publications of a site: marks on a chart, and a list below it.
import { html } from './vendor/preact-htm.js';
import { change, clockTime, count, counted, day, isoDate, pageUrl, url, useAnswer } from './core.js';
import { Chart, Scroll } from './parts.js';

const NOUNS = { experiments: 'experiment', zones: 'zone', audiences: 'audience', goals: 'goal', routes: 'page' };

// A version is often a time in seconds. Its last digits tell two of them apart.
const shortVersion = (version) => `v${version.length > 6 ? `…${version.slice(-4)}` : version}`;

// The fields of the range show whole days.
function daysSince({ servedFrom }, site, to) {
  const [from, end] = [servedFrom, to].map((time) => isoDate(time, site.timeZone));
  return { from, to: end > from ? end : to, days: null, by: null };
}

function openDetails(id) {
  const details = document.getElementById(id);
  details?.setAttribute('open', '');
  details?.firstElementChild.focus();
}

// A chart with the publications between `from` and `to`. With `compares`, a publication leads to the days since it, which the page
// compares with as many days before. Otherwise it opens its details.
export function PublishedChart({ site, from, to, marks = [], compares, ...chart }) {
  const { data, error, isLoading } = useAnswer(url('insights/publications', { site: site.site, from, to }));
  // While another range loads, `data` has the publications of the last one.
  const publications = (!isLoading && data?.publications) || [];
  // The present day has its point at midnight, so a later publication is drawn there.
  const own = publications.map((one) => ({
    t: Math.min(Date.parse(one.servedFrom) / 1000, chart.t.at(-1)),
    label: shortVersion(one.version),
    isQuiet: true,
    pick: () => (compares ? change(daysSince(one, site, to)) : openDetails(one.servedFrom)),
  }));
  return html`
    <${Chart} ...${chart} marks=${[...own, ...marks]} />
    ${error && html`<p class="dim small">The publications are not known: ${error.message}</p>`}
    ${
      publications.length > 0 &&
      html`
      <p class="dim small gap-top">Dotted lines: the server began to serve another version.${compares && ' Choose a version to compare the days since then with as many days before.'}</p>
      <${Scroll} label="Publications">
        <ul class="publications">
          ${publications.map((one) => html`<${Publication} key=${one.servedFrom} ...${{ site, one }} href=${compares && pageUrl('overview', daysSince(one, site, to))} />`)}
          ${data.more > 0 && html`<li>and ${counted(data.more, 'earlier version')}</li>`}
        </ul>
      <//>
    `
    }
  `;
}

function Publication({ site, one: { version, servedFrom, changes, missing }, href }) {
  const name = `Version ${version}, ${day(servedFrom, site.timeZone)}, ${clockTime(servedFrom, site.timeZone)}`;
  const changed = changes && inWords(changes);
  const words = changes ? changed || 'no change of pages, rules or goals' : missing.map(({ detail }) => detail).join(' ');
  return html`
    <li>
      ${href ? html`<a href=${href}>${name}</a>: ${words}` : !changed && html`${name}: ${words}`}
      ${changed && html`<details id=${servedFrom}><summary>${href ? html`What changed<span class="hidden"> in version ${version}</span>` : html`${name}: ${words}`}</summary><${Changes} changes=${changes} /></details>`}
    </li>
  `;
}

function inWords({ holdout, ...lists }) {
  const changed = Object.keys(NOUNS).filter((list) => lists[list].total > 0);
  const parts = changed.map((list) => counted(lists[list].total, NOUNS[list]));
  return [...parts, ...(holdout ? ['holdout'] : [])].join(', ');
}

const Changes = ({ changes: { holdout, ...lists } }) => html`
  <ul class="dim small">
    ${Object.entries(NOUNS).map(([list, noun]) => {
      const { total, first } = lists[list];
      return html`
        ${first.map(({ name, changes, text, paths }) => html`<li>${noun} <bdi>${name}</bdi>${paths && html` of <bdi>${paths.join(', ')}</bdi>`}: <bdi>${text ?? changes.join(', ')}</bdi></li>`)}
        ${total > first.length && html`<li>and ${count(total - first.length)} more of ${counted(total, noun)}</li>`}
      `;
    })}
    ${holdout && html`<li>holdout of the site: <bdi>${holdout.text}</bdi></li>`}
  </ul>
`;
