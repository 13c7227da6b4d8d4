// Experiments: a list, and one experiment with its exposures, alarms and metrics.
import { html } from './vendor/preact-htm.js';
import { ago, amount, change, clockTime, count, counted, day, download, isoDate, pageUrl, percent, shiftDate, signedPercent, url, useAnswer, valueInWords, writtenPercent } from './core.js';
import { Answer, Card, Chart, Details, Empty, Footer, Notice, Pill, Scroll, Select, Stranger, Table, Tile } from './parts.js';

const ALARMS = {
  srm: 'The visitors are not split as the weights say, so one arm loses visitors. Look at each arm in a browser, repair it, and begin again with a new key.',
  both_arms: 'More than 1 % of the visitors saw two arms. Let all hosts of the site share the cookie of the ID, and change weights only with a new key.',
  zero_weight: 'More than 1 % of the visitors saw an arm that this experiment does not have. Purge the caches of its pages, or look for forged events in the export.',
  phase_changed: 'Arms, weights, seed or holdout changed in this time. Count the visitors since the begin of the phase, under Details.',
  arm_error: 'One arm has more than its share of the visitors with an error. Repair it, and begin again with a new key.',
  mixed_currencies: 'The values have several currencies, which are never added up. Add one to the URL of the result, such as &currency=EUR, or give the goal a property of one.',
  enrolment_stalled: 'No visitor saw an arm for 24 hours, while pages were viewed. Check that the page sends its experiments, and that no other rule comes before this one.',
  one_node: 'This server lacks the events of the other nodes. Use its numbers for no decision.',
};

// The key of the holdout of the site. No experiment can have it.
const HOLDOUT = '~';
const HOLDOUT_TITLE = 'All experiments together';
const GROUPS = { '~': 'held out', on: 'everyone else' };

// Returns an answer about the holdout of the site with its groups in words.
const withGroups = (data) =>
  JSON.parse(JSON.stringify(data), (name, value) => {
    if (name === 'key' || name === 'arm') return GROUPS[value] ?? value;
    const isByArm = (name === 'exposed' || name === 'errors') && typeof value === 'object';
    return isByArm ? Object.fromEntries(Object.entries(value).map(([key, of]) => [GROUPS[key] ?? key, of])) : value;
  });

const moment = (time, { timeZone }) => `${day(time, timeZone)}, ${clockTime(time, timeZone)}`;

const isOver = (standing) => standing === 'ended' || standing === 'decided';

// Says when an experiment begins and ends, and what everyone gets then. `of` has its from, to and winner.
function Schedule({ standing, of: { from, to, winner }, site }) {
  const verbs = isOver(standing) ? ['Started', 'Ended', 'Everyone gets'] : [standing === 'running' ? 'Started' : 'Starts', 'Ends', 'Then everyone gets'];
  return html`
    ${from && `${verbs[0]} on ${moment(from, site)}. `}
    ${to && `${verbs[1]} on ${moment(to, site)}. `}
    ${winner && html`${verbs[2]} <bdi>${winner}</bdi>.`}
  `;
}

export function Experiments({ site, query }) {
  const key = query.get('key');
  return key === null
    ? html`<div class="gap-top"><${ExperimentList} site=${site} /></div>`
    : html`<p class="crumb"><a href=${pageUrl('experiments', { key: null })}>All experiments</a></p><${One} key=${key} name=${key} ...${{ site, query }} />`;
}

function ExperimentList({ site }) {
  const address = url('insights/experiments', { site: site.site });
  const answer = useAnswer(address);
  return html`
    <${Answer} of=${answer}>
      ${(data) => html`
        ${data.experiments.length === 0 && html`<${Empty}>Neither the published site nor an event names an experiment.<//>`}
        ${data.siteHoldout && html`<${HoldoutSummary} site=${site} />`}
        <div class="cards two">${data.experiments.map((one) => html`<${Summary} key=${one.key} experiment=${one} site=${site} />`)}</div>
        <${Footer} data=${data} csv=${() => download(address, `experiments-${site.site}.csv`, 'text/csv')} />
      `}
    <//>
  `;
}

const armsInWords = (arms) => (arms ?? []).map(({ key, weight }) => `${key} ${writtenPercent(weight)}`).join(', ');

const linkTo = (key, title) => html`<a href=${pageUrl('experiments', { key })}><bdi>${title}</bdi></a>`;

const Alarms = ({ alarms }) => alarms.map((alarm) => html`<p key=${alarm} class="down small">${ALARMS[alarm] ?? alarm}</p>`);

const State = ({ alarms = [], state }) =>
  alarms.length > 0 ? html`<${Pill} tone="bad">${counted(alarms.length, 'alarm')}<//>` : html`<${Pill} tone=${state === 'running' ? 'good' : 'neutral'}><bdi>${state}</bdi><//>`;

function stateOf({ standing, winner, coverage, lastExposure }) {
  if (standing === 'decided') return `decided: ${winner}`;
  if (standing !== 'running') return standing?.replace('_', ' ') ?? 'not published';
  if (coverage === 0) return 'paused';
  return lastExposure ? 'running' : 'no exposure yet';
}

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

const LIFTS = [
  ['', 'no estimate'],
  ['0.02', '2 %'],
  ['0.05', '5 %'],
  ['0.1', '10 %'],
  ['0.2', '20 %'],
];
const SINCE = [
  ['', 'the begin of the phase'],
  ['7', '7 days ago'],
  ['30', '30 days ago'],
  ['90', '90 days ago'],
];
// A longer time is no plan.
const DAYS_LEFT_MAX = 365;
// The error rate of the API without the parameter.
const ALPHA_DEFAULT = 0.05;

// Parameters of the question that a person can write into the URL.
const ASKED = ['goal', 'value', 'window', 'planned', 'cap', 'alpha', 'method', 'baseline', 'power', 'bots', 'cuped', 'currency'];

function experimentQuestion(site, query, key, choice) {
  const params = Object.fromEntries(ASKED.map((param) => [param, query.get(param)]));
  const lists = Object.fromEntries(['more', 'guardrail'].map((param) => [param, query.getAll(param)]));
  const from = choice.since && shiftDate(isoDate(Date.now(), site.timeZone), -choice.since);
  return { site: site.site, key, ...params, ...lists, from, by: 'day', lift: choice.lift };
}

function One({ site, query, name }) {
  const choice = {
    lift: query.get('lift') ?? '0.05',
    since: query.get('since') ?? '',
    alpha: Number(query.get('alpha') || ALPHA_DEFAULT),
    isFixed: query.get('method') === 'fixed',
  };
  const isHoldout = name === HOLDOUT;
  const [topic, key, title] = isHoldout ? ['holdout', null, HOLDOUT_TITLE] : ['experiment', name, name];
  const address = url(`insights/${topic}`, experimentQuestion(site, query, key, choice));
  const answer = useAnswer(address);
  const csv = () => download(address, `${topic}-${key ?? site.site}.csv`, 'text/csv');
  return html`
    <h2 class="page-title"><bdi>${title}</bdi></h2>
    <${Answer} of=${answer}>${(data) => html`<${Result} data=${isHoldout ? withGroups(data) : data} ...${{ isHoldout, site, choice, csv }} />`}<//>
  `;
}

// The state of an experiment in words, or what the holdout of the site tells.
function Lead({ data, isHoldout, site }) {
  if (isHoldout) return html`<p class="lead">Visitors who are held out see no experiment. The change is what all experiments together bring.</p>`;
  const { standing, schedule, phases, lastExposure } = data;
  const state = stateOf({ standing, lastExposure, ...schedule, coverage: phases.at(-1)?.coverage });
  return html`<p class="lead"><${State} state=${state} /> <${Schedule} of=${schedule} ...${{ standing, site }} />${isOver(standing) && ' Only events before the end count.'}</p>`;
}

function Result({ data, isHoldout, site, choice, csv }) {
  const isAlarmed = data.alarms.length > 0;
  return html`
    <${DecisionSentence} decision=${data.decision} />
    <${Lead} ...${{ data, isHoldout, site }} />
    ${data.alarms.map((alarm) => html`<${Notice} key=${alarm} tone="bad"><strong>Do not trust this result. </strong>${ALARMS[alarm] ?? alarm}<//>`)}
    ${isEmpty(data) && html`<${NoExposure} choice=${choice} />`}
    ${!data.published && html`<${Notice}>The published site does not have this ${isHoldout ? 'holdout' : 'experiment'} any more.<//>`}
    <div class="tiles">
      ${data.arms.map(({ key, weight, exposed }) => html`<${Tile} key=${key} label=${html`Visitors${isHoldout ? ':' : ' saw'} <bdi>${key}</bdi>`} value=${exposed} note=${noteOf(data, key, weight, exposed)} />`)}
      <${Tile} label="Shares as planned" ...${srmInWords(data)} />
      <${Tile} label=${isHoldout ? 'In both groups' : 'In both arms'} value=${data.both} note=${`${percent(shareOf(data.both, data.arms, data.both), 2)} of visitors, left out`} />
      ${data.daysLeft !== undefined && html`<${Tile} label="Days left" value=${daysInWords(data.daysLeft)} note=${choice.lift ? `to find a change of ${percent(Number(choice.lift), 0)}` : 'choose a change below'} />`}
    </div>
    ${data.exploratory && html`<p class="gap"><${Pill}>exploratory<//> <span class="dim small">These choices differ from those that were published before the result was known.</span></p>`}
    <div class=${isAlarmed ? 'greyed' : undefined}><${Metrics} data=${data} choice=${choice} /></div>
    <${Exposures} ...${{ data, isHoldout, site }} />
    <${Card} title="Details" wide><${More} data=${data} site=${site} choice=${choice} /><//>
    <${Footer} data=${data} csv=${csv} />
  `;
}

// Visitors with an error are counted for each arm. If there are none, no arm says so.
function noteOf({ arms, errors }, key, weight, exposed) {
  const hasErrors = Object.values(errors).some((visitors) => visitors > 0);
  const split = weight === null ? 'planned share unknown' : `${writtenPercent(weight)} planned, ${percent(shareOf(exposed, arms))} seen`;
  return split + (hasErrors ? `, ${counted(errors[key], 'visitor')} with an error` : '');
}

const DecisionSentence = ({ decision }) => decision && html`<p class="decision lead"><strong><bdi>${decision.sentence}</bdi></strong></p>`;

const isEmpty = (data) => data.arms.every(({ exposed }) => exposed === 0);

// The events of demo-traffic, or of an import, are older than the phase, which begins when the server first serves the experiment.
const NoExposure = ({ choice }) => html`
  <${Notice}>
    Nobody was exposed in this time.
    ${!choice.since && html` Visitors whose events are older than the phase are left out. <button type="button" class="quiet" onClick=${() => change({ since: '30' })}>Count the last 30 days</button>`}
  <//>
`;

function daysInWords(days) {
  if (days === null) return '–';
  return days > DAYS_LEFT_MAX ? `> ${DAYS_LEFT_MAX}` : Math.ceil(days);
}

function shareOf(part, arms, others = 0) {
  const all = arms.reduce((total, { exposed }) => total + exposed, others);
  return all > 0 ? part / all : null;
}

const REASONS = { no_visitors: 'no visitors yet', one_arm: 'only one arm has a weight', weights_unknown: 'the weights are not known', phase_changed: 'the range holds a change of phase' };

function srmInWords({ srm, srmReason }) {
  if (!srm) return { value: '–', note: REASONS[srmReason] ?? srmReason ?? 'not tested' };
  return { value: srm.alarm ? 'no' : 'yes', note: `p ${srm.p < 0.001 ? srm.p.toExponential(1) : srm.p.toFixed(3)}` };
}

function Exposures({ data, isHoldout, site }) {
  const { series, phases, arms, lastExposure, lastPage } = data;
  if (isEmpty(data)) return null;
  const title = `New visitors of each ${isHoldout ? 'group' : 'arm'}`;
  const lines = arms.filter(({ key }) => series.exposed[key]).map(({ key }) => ({ name: key, values: series.exposed[key] }));
  const marks = phases.flatMap(({ coverages }) => coverages.map(({ from }) => Date.parse(from) / 1000));
  return html`
    <${Card} title=${title} wide>
      <${Chart} label=${title} t=${series.t} series=${lines} marks=${marks} by="day" timeZone=${site.timeZone} isRunning=${Date.parse(data.to) > Date.now()} />
      <p class="dim small">A visitor counts on the day of its first exposure. Dashed lines: a phase begins, or the coverage changes.${lastExposure && lastPage && ` Last exposure: ${moment(lastExposure, site)}. Last page view of the site: ${moment(lastPage, site)}.`}</p>
      ${phases.map((phase) => html`<${Phase} key=${phase.from} ...${{ phase, site }} />`)}
    <//>
  `;
}

// A phase with the steps of its coverage. A step after the end is never reached.
function Phase({ phase: { from, to, arms, coverage, coverages }, site }) {
  const steps = coverages.filter((step) => !to || step.from < to);
  const present = steps.filter((step) => Date.parse(step.from) <= Date.now()).length - 1;
  const note = (at) => (at > present ? ' (planned)' : at === present && !(Date.parse(to) < Date.now()) ? ' (now)' : '');
  return html`
    <p class="dim small">Phase since ${day(from, site.timeZone)}: <bdi>${armsInWords(arms)}</bdi>${steps.length > 1 ? '. Coverage of new visitors:' : coverage < 1 ? `, coverage ${writtenPercent(coverage)}.` : '.'}</p>
    ${steps.length > 1 && html`<ul class="dim small">${steps.map((step, at) => html`<li key=${step.from}><b>${writtenPercent(step.share)}</b> from ${moment(step.from, site)}${note(at)}</li>`)}</ul>`}
  `;
}

const VERDICTS = {
  better: ['good', 'better'],
  no_worse: ['good', 'no worse'],
  worse: ['bad', 'worse'],
  harmed: ['bad', 'harmed'],
  not_told_apart: ['neutral', 'not told apart'],
  too_early: ['neutral', 'too early'],
};

const EARLY = {
  visitors: 'fewer than 100 visitors',
  conversions: 'fewer than 10 that reached the goal',
  buyers: 'fewer than 30 with an amount',
  spread: 'the amounts differ too much for their number',
  non_conversions: 'fewer than 10 that did not',
  baseline: 'the baseline may still be 0',
};

const ROLES = { goal: 'goal', value: 'value', more: 'secondary', guardrail: 'guardrail' };

// One row for each metric and compared arm.
const rowsOf = (data) =>
  data.metrics.flatMap((metric) => {
    const compared = metric.against.map(({ key }) => key);
    const baseline = metric.arms.find(({ key }) => !compared.includes(key));
    return metric.against.map((against) => ({ metric, baseline, against, arm: metric.arms.find(({ key }) => key === against.key) }));
  });

// All intervals share one scale, so that their widths can be compared.
function scaleOf(rows) {
  const ends = rows.flatMap(({ against, metric }) => [against.low, against.high, against.estimate, metric.margin && -metric.margin]);
  const most = Math.max(0.02, ...ends.filter((end) => typeof end === 'number').map(Math.abs));
  return Math.min(most * 1.1, 2);
}

// The mean of nobody is null.
const meanOf = (metric, arm) => (metric.kind === 'proportion' ? percent(arm?.mean, 2) : amount(arm?.mean));

// The URL can set the error rate and the method.
export function validityInWords({ alpha, isFixed }) {
  const validity = isFixed ? 'are valid for one look only' : 'stay valid however often you look';
  return `The intervals of ${Number((100 * (1 - alpha)).toFixed(2))} % ${validity}.`;
}

function Metrics({ data, choice }) {
  const rows = rowsOf(data);
  if (rows.length === 0) {
    return html`<${Notice}>No goal is published with this experiment. Add <code>"goal"</code> beside its key, or name one in the URL: <code>&goal=Order+Placed</code>.<//>`;
  }
  const scale = scaleOf(rows);
  const columns = [
    { name: 'Metric', isHead: true, of: ({ metric }) => html`<${MetricName} metric=${metric} />` },
    {
      name: 'Baseline',
      isNumber: true,
      of: ({ metric, baseline }) => html`${meanOf(metric, baseline)}<div class="dim small"><bdi>${baseline?.key}</bdi></div>`,
    },
    {
      name: 'Arm',
      isNumber: true,
      of: ({ metric, arm }) => html`${meanOf(metric, arm)}<div class="dim small"><bdi>${arm?.key}</bdi></div>`,
    },
    {
      name: 'Change',
      isNumber: true,
      of: ({ against }) => (against.estimate === null ? html`<span class="dim">no data</span>` : html`<b>${signedPercent(against.estimate)}</b>`),
    },
    { name: 'Interval', of: (row) => html`<${Interval} row=${row} scale=${scale} />` },
    { name: 'Verdict', of: (row) => html`<${Verdict} row=${row} />` },
  ];
  return html`
    <${Card} title="Result" wide>
      <${Scroll} isWhole label="Metrics"><${Table} stacks label="Metrics" columns=${columns} rows=${rows} /><//>
      ${data.metrics.filter(isMixed).map((metric) => html`<${Mixed} metric=${metric} />`)}
      <p class="dim small gap-top">${validityInWords(choice)} Secondary metrics are adjusted together.${rows.some(({ against }) => against.cuped) && ' CUPED removes the differences that visitors had in the 14 days before the exposure.'}</p>
    <//>
  `;
}

// A metric whose amounts have several currencies has no row, because no arm is compared.
const isMixed = ({ currencies, against }) => currencies?.length > 1 && against.length === 0;

const Mixed = ({ metric }) => html`
  <p class="gap-top"><bdi>${metric.goal}</bdi>, <bdi>${metric.value}</bdi>: <bdi>${valueInWords(metric, metric)}</bdi>. These amounts are not compared.</p>
`;

function capInWords({ cap, capRule, capped }) {
  if (capRule === 'none') return 'not limited: one order can decide';
  return cap === null ? 'not limited yet' : `limited to ${cap} (${capRule}): ${counted(capped, 'visitor')}`;
}

const MetricName = ({ metric }) => html`
  <bdi>${metric.goal}</bdi>${metric.value && html`, <bdi>${metric.value}</bdi> per visitor`}
  ${metric.value && html`<div class="dim small">${capInWords(metric)}</div>`}
  <div class="dim small">${ROLES[metric.role]}${metric.margin ? `, margin ${writtenPercent(metric.margin)}` : ''}${metric.lowerIsBetter ? ', lower is better' : ''}</div>
`;

const boundsInWords = ({ low, high }) => `${signedPercent(low)} to ${signedPercent(high)}`;

function intervalInWords({ low, high, estimate }) {
  return low === null ? 'no interval yet' : `${boundsInWords({ low, high })}, estimate ${estimate === null ? 'unknown' : signedPercent(estimate)}`;
}

// At 0.5 times the variance, as many visitors tell as much as two times as many without CUPED.
function Cuped({ varianceRatio, unadjusted }) {
  const times = (1 / varianceRatio).toFixed(2);
  if (times === '1.00') return html`<div class="dim small">CUPED: no effect</div>`;
  return html`
    <div class="dim small">CUPED: as if ${times} times the visitors</div>
    ${unadjusted.low !== null && html`<div class="dim small">without it: ${boundsInWords(unadjusted)}</div>`}
  `;
}

// The half width of the picture stands for `scale`.
function Interval({ row: { against, metric }, scale }) {
  if (against.low === null) return html`<span class="dim small">${intervalInWords(against)}</span>`;
  const x = (change) => 100 + (100 * Math.max(-scale, Math.min(scale, change))) / scale;
  const margin = metric.margin && (metric.lowerIsBetter ? metric.margin : -metric.margin);
  return html`
    <svg class="interval" viewBox="0 0 200 24" role="img" aria-label=${intervalInWords(against)}>
      <line class="zero" x1="100" x2="100" y1="1" y2="23" />
      ${margin && html`<line class="margin" x1=${x(margin)} x2=${x(margin)} y1="1" y2="23" />`}
      <rect x=${x(against.low)} width=${Math.max(2, x(against.high) - x(against.low))} y="8" height="8" rx="4" />
      ${against.estimate !== null && html`<line class="tick" x1=${x(against.estimate)} x2=${x(against.estimate)} y1="4" y2="20" />`}
    </svg>
    <div class="dim small">${boundsInWords(against)}</div>
    ${against.cuped && html`<${Cuped} ...${against.cuped} />`}
  `;
}

function Verdict({ row: { metric, against, baseline } }) {
  const [tone, words] = VERDICTS[against.verdict] ?? ['neutral', against.verdict ?? 'none'];
  const early = metric.tooEarly.filter(({ arm }) => arm === against.key || arm === baseline?.key);
  return html`
    <${Pill} tone=${tone}>${words}<//>
    ${early.map(({ arm, reason }) => html`<div key=${`${arm} ${reason}`} class="dim small"><bdi>${arm}</bdi>: ${EARLY[reason] ?? reason}</div>`)}
  `;
}

function More({ data, site, choice }) {
  return html`
    <div class="row">
      <${Select} label="Exposed since" isHidden=${false} value=${choice.since} options=${SINCE} onChange=${(since) => change({ since: since || null })} />
      <${Select} label="Smallest interesting change" isHidden=${false} value=${choice.lift} options=${LIFTS} onChange=${(lift) => change({ lift })} />
    </div>
    <p class="dim small gap-top">
      Visitors exposed before ${day(data.from, site.timeZone)} are left out: ${count(data.earlier)}.
      ${data.decision && ` In the holdout, described and not compared: ${count(data.holdout.exposed)}.`}
    </p>
    <${Details} summary="Sums and p-values">${() => html`<${Sums} data=${data} />`}<//>
  `;
}

function Sums({ data }) {
  const arms = data.metrics.flatMap((metric) => {
    const rows = metric.arms.map((arm) => ({ metric, arm, against: metric.against.find(({ key }) => key === arm.key) }));
    return metric.holdout ? [...rows, { metric, arm: { ...metric.holdout, key: 'holdout' } }] : rows;
  });
  const raw = (value) => (value === null || value === undefined ? '–' : String(value));
  const columns = [
    {
      name: 'Metric',
      isHead: true,
      of: ({ metric }) => html`<${Stranger} text=${[metric.goal, metric.value].filter(Boolean).join(', ')} />`,
    },
    { name: 'Arm', of: ({ arm }) => html`<${Stranger} text=${arm.key} />` },
    ...['n', 'sum', 'sumOfSquares', 'mean'].map((name) => ({ name, isNumber: true, of: ({ arm }) => raw(arm[name]) })),
    { name: 'p', isNumber: true, of: ({ against }) => raw(against?.p?.toPrecision(3)) },
    { name: 'adjusted p', isNumber: true, of: ({ against }) => raw(against?.pAdjusted?.toPrecision(3)) },
  ];
  return html`<${Scroll} isWhole label="Sums"><${Table} stacks label="Sums" columns=${columns} rows=${arms} /><//>`;
}
