// The list of the experiments of a site.
import { html } from './vendor/preact-htm.js';
import { ago, count, counted, day, download, pageUrl, url, useAnswer, writtenPercent } from './core.js';
import { intervalInWords } from './comparisons.js';
import { Answer, Card, Empty, Footer } from './parts.js';
import { ALARMS, GROUPS, HOLDOUT, HOLDOUT_TITLE, Schedule, State, armsInWords, isOver, stateOf } from './standing.js';

export function Experiments({ site }) {
  const address = url('insights/experiments', { site: site.site });
  const answer = useAnswer(address);
  return html`
    <div class="gap-top"><${Answer} of=${answer}>
      ${(data) => html`
        ${data.experiments.length === 0 && html`<${Empty}>Neither the published site nor an event names an experiment.<//>`}
        ${data.siteHoldout && html`<${HoldoutSummary} site=${site} />`}
        <div class="cards two">${data.experiments.map((one) => html`<${Summary} key=${one.key} experiment=${one} site=${site} />`)}</div>
        <${Footer} data=${data} csv=${() => download(address, `experiments-${site.site}.csv`, 'text/csv')} />
      `}
    <//></div>
  `;
}

const linkTo = (key, title) => html`<a href=${pageUrl('experiments', { key })}><bdi>${title}</bdi></a>`;

const Alarms = ({ alarms }) => alarms.map((alarm) => html`<p key=${alarm} class="down small">${ALARMS[alarm] ?? alarm}</p>`);

// What all experiments bring together, as the holdout of the site tells.
function HoldoutSummary({ site }) {
  const answer = useAnswer(url('insights/holdout', { site: site.site }));
  return html`
    <${Answer} of=${answer}>
      ${({ alarms, arms, metrics }) => html`
        <${Card} wide title=${linkTo(HOLDOUT, HOLDOUT_TITLE)} actions=${html`<${State} alarms=${alarms} state="site holdout" />`}>
          <${Alarms} alarms=${alarms} />
          <p class="dim small">The changes are those of everyone else, against the visitors who are held out.</p>
          <dl class="gap-top">
            ${arms.map(({ key, exposed }) => html`<dt>${GROUPS[key] ?? key}</dt><dd>${counted(exposed, 'visitor')}</dd>`)}
            ${metrics.flatMap(({ goal, value, against }) => against.map((of) => html`<dt><bdi>${value ?? goal}</bdi></dt><dd>${intervalInWords(of)}</dd>`))}
          </dl>
        <//>
      `}
    <//>
  `;
}

function Summary({ experiment, site }) {
  const { key, routes, arms, goal, planned, phase, exposed, both, alarms, coverage, standing } = experiment;
  return html`
    <${Card} title=${linkTo(key, key)} actions=${html`<${State} ...${{ alarms, state: stateOf(experiment) }} />`}>
      <${Alarms} alarms=${alarms} />
      <div class="exposed"><b>${count(exposed)}</b> <span class="dim small">${planned ? `of ${count(planned)} planned visitors` : 'visitors exposed'}</span></div>
      ${planned && html`<svg class="size" aria-hidden="true" viewBox="0 0 100 6" preserveAspectRatio="none"><rect class="track" width="100" height="6" /><rect class="least" width=${Math.min(100, (100 * exposed) / planned)} height="6" /></svg>`}
      <dl class="gap-top">
        <dt>goal</dt><dd><bdi>${goal ?? 'none'}</bdi></dd>
        <dt>arms</dt><dd><bdi>${armsInWords(arms)}</bdi></dd>
        ${coverage < 1 && standing && !isOver(standing) && html`<dt>coverage</dt><dd>${writtenPercent(coverage)} of new visitors</dd>`}
        ${(experiment.from || experiment.to) && html`<dt>schedule</dt><dd><${Schedule} of=${experiment} ...${{ standing, site }} /></dd>`}
        <dt>pages</dt><dd><bdi>${(routes ?? []).join(', ') || '–'}</bdi>${experiment.moreRoutes > 0 && ` and ${count(experiment.moreRoutes)} more`}</dd>
        <dt>since</dt><dd>${phase ? `${day(phase, site.timeZone)} (${ago(phase)})` : 'unknown'}</dd>
        <dt>in two arms</dt><dd>${count(both)}</dd>
      </dl>
    <//>
  `;
}
