// One experiment with its exposures, alarms and metrics.
import { html } from './vendor/preact-htm.js';
import { change, count, counted, day, download, isoDate, pageUrl, percent, shiftDate, url, useAnswer, valueInWords, writtenPercent } from './core.js';
import { Segments, comparedColumns, rowsOf, scaleOf } from './comparisons.js';
import { Answer, Card, Details, Footer, Notice, Pill, Scroll, Select, Stranger, Table, Tile } from './parts.js';
import { PublishedChart } from './publications.js';
import { ALARMS, GROUPS, HOLDOUT, HOLDOUT_TITLE, Schedule, State, armsInWords, isOver, moment, stateOf } from './standing.js';

export const Experiment = ({ site, query }) => html`
  <p class="crumb"><a href=${pageUrl('experiments', { key: null })}>All experiments</a></p>
  <${One} key=${query.get('key')} name=${query.get('key')} ...${{ site, query }} />
`;
// Returns an answer about the holdout of the site with its groups in words.
const withGroups = (data) =>
  JSON.parse(JSON.stringify(data), (name, value) => {
    if (name === 'key' || name === 'arm') return GROUPS[value] ?? value;
    const isByArm = (name === 'exposed' || name === 'errors') && typeof value === 'object';
    return isByArm ? Object.fromEntries(Object.entries(value).map(([key, of]) => [GROUPS[key] ?? key, of])) : value;
  });

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
  const by = ['day', ...query.getAll('segment').map((name) => `segment:${name}`)];
  return { site: site.site, key, ...params, ...lists, from, by, lift: choice.lift };
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
    <${Answer} of=${answer}>${(data) => html`<${Result} data=${isHoldout ? withGroups(data) : data} ...${{ isHoldout, site, choice, csv, query }} />`}<//>
  `;
}

// The state of an experiment in words, or what the holdout of the site tells.
function Lead({ data, isHoldout, site }) {
  if (isHoldout) return html`<p class="lead">Visitors who are held out see no experiment. The change is what all experiments together bring.</p>`;
  const { standing, schedule, phases, lastExposure } = data;
  const state = stateOf({ standing, lastExposure, ...schedule, coverage: phases.at(-1)?.coverage });
  return html`<p class="lead"><${State} state=${state} /> <${Schedule} of=${schedule} ...${{ standing, site }} />${isOver(standing) && ' Only events before the end count.'}</p>`;
}

function Result({ data, isHoldout, site, choice, csv, query }) {
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
    <div class=${isAlarmed ? 'greyed' : undefined}>
      <${Metrics} data=${data} choice=${choice} />
      ${!isEmpty(data) && html`<${Segments} ...${{ data, choice, query }} />`}
    </div>
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
  const marks = phases.flatMap(({ coverages }) => coverages.map(({ from }) => ({ t: Date.parse(from) / 1000 })));
  return html`
    <${Card} title=${title} wide>
      <${PublishedChart} ...${{ site, from: data.from, to: data.to }} label=${title} t=${series.t} series=${lines} marks=${marks} by="day" timeZone=${site.timeZone} isRunning=${Date.parse(data.to) > Date.now()} />
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

const ROLES = { goal: 'goal', value: 'value', more: 'secondary', guardrail: 'guardrail' };

// The URL can set the error rate and the method.
export function validityInWords({ alpha, isFixed }) {
  const validity = isFixed ? 'are valid for one look only' : 'stay valid however often you look';
  return `The intervals of ${Number((100 * (1 - alpha)).toFixed(2))} % ${validity}.`;
}

function Metrics({ data, choice }) {
  const rows = rowsOf(data.metrics);
  if (rows.length === 0) {
    return html`<${Notice}>No goal is published with this experiment. Add <code>"goal"</code> beside its key, or name one in the URL: <code>&goal=Order+Placed</code>.<//>`;
  }
  const scale = scaleOf(rows);
  const columns = [
    { name: 'Metric', isHead: true, of: ({ metric }) => html`<${MetricName} metric=${metric} />` },
    ...comparedColumns(scale),
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
