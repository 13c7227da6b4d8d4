// Resolves a route as one visitor, and shows the decision zone by zone and the page as an outline. Explains pages of the past.
import { html, useState } from './vendor/preact-htm.js';
import { capital, change, dateTime, url, useAnswer } from './core.js';
import { caseFile } from './case.js';
import { Answer, Card, Code, Details, Field, Json, Notice, Pill, Scroll, Select, Stranger } from './parts.js';

// The browser of the operator is not the one of the visitor, so a request names a user agent, unless one is recorded.
const AGENTS = {
  unknown: 'unknown',
  desktop: 'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36',
  mobile:
    'Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Mobile/15E148 Safari/604.1',
  tablet: 'Mozilla/5.0 (iPad; CPU OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Mobile/15E148 Safari/604.1',
};
const DEVICES = [
  ['unknown', 'unknown'],
  ['desktop', 'desktop'],
  ['mobile', 'phone'],
  ['tablet', 'tablet'],
];

// The codes that say that a recorded value does not count: an empty parameter means the recorded one.
const NONE = { locale: 'und', country: 'ZZ' };

const recordedDevice = (recorded) => [recorded?.device, recorded?.os, recorded?.browser].filter(Boolean).join(', ');

// The parameter of a value: none if it is the recorded one.
const written = (name, value, recorded) => (value === (recorded ?? '') ? null : value || NONE[name]);

export function Explain({ site, visitor, query, recorded }) {
  const routes = useAnswer(url('v1/routes', { site: site.site, limit: 200 }));
  const [route, setRoute] = useState(query.get('route') ?? '/');
  const [context, setContext] = useState({
    locale: query.get('locale') ?? recorded?.language ?? '',
    country: query.get('country') ?? recorded?.country ?? '',
    device: query.get('device') ?? '',
    url: query.get('url') ?? '',
  });
  const set = (name) => (event) => setContext({ ...context, [name]: event.currentTarget.value });
  const submit = (event) => {
    event.preventDefault();
    change({
      route,
      device: context.device || null,
      url: context.url || null,
      locale: written('locale', context.locale, recorded?.language),
      country: written('country', context.country, recorded?.country),
    });
  };
  const device = recordedDevice(recorded);
  const devices = [['', device ? `as recorded: ${device}` : 'unknown'], ...DEVICES.slice(device ? 0 : 1)];
  return html`
    <${Card} title="The page that this visitor gets now" wide>
      <form class="row" onSubmit=${submit}>
        <div class="grow">
          <${Field} label="Path" value=${route} list="routes" required pattern="/.*" onInput=${(event) => setRoute(event.currentTarget.value)} />
          <datalist id="routes">${(routes.data?.routes ?? []).map(({ path }) => html`<option key=${path} value=${path} />`)}</datalist>
        </div>
        <${Select} label="Device" isHidden=${false} value=${context.device} options=${devices} onChange=${(device) => setContext({ ...context, device })} />
        <${Field} label="Language" size="6" value=${context.locale} placeholder="any" onInput=${set('locale')} />
        <${Field} label="Country" size="6" value=${context.country} placeholder="any" maxlength="2" onInput=${set('country')} />
        <${Field} label="URL with its campaign" value=${context.url} placeholder="none" onInput=${set('url')} />
        <button type="submit" class="primary">Explain</button>
      </form>
      ${recorded && html`<p class="dim small">Device, language and country as recorded on ${dateTime(recorded.at, site.timeZone)}. Recorded languages have no region.</p>`}
      ${query.has('route') && html`<${Explanation} ...${{ site, visitor, query, recorded }} />`}
    <//>
  `;
}

function Explanation({ site, visitor, query, recorded }) {
  const context = {
    locale: query.get('locale'),
    country: query.get('country'),
    userAgent: AGENTS[query.get('device')] ?? (recordedDevice(recorded) ? null : AGENTS.unknown),
    url: query.get('url') ?? query.get('route'),
  };
  const answer = useAnswer(url('v1/resolve', { site: site.site, route: query.get('route'), ...context, explain: '1' }, visitor));
  return html`<div class="gap-top"><${Answer} of=${answer}>${(data) => html`
    <${Decisions} data=${data} />
    ${data.type !== 'redirect' && data.decisions.length > 0 && html`<${TestCase} data=${data} page=${context.url} />`}
  `}<//></div>`;
}

// The decision as a file of the directory `tests` of the site.
const TestCase = ({ data, page }) => html`
  <${Details} summary="Copy as test">${() => html`
    <p class="dim small">A file for the directory tests of the site, for parallax test. It has the IDs and the traits of this visitor. Of each event and page it has
      the number, the first time and the last time.</p>
    <${Code} label="The test" text=${JSON.stringify(caseFile(data, page, AGENTS), null, 2)} />
  `}<//>
`;

// The page of a record, as the server decided it then.
export function Past({ site, visitor, seq }) {
  const answer = useAnswer(url('visitors/explain', { site: site.site, seq }, visitor));
  const close = html`<button type="button" onClick=${() => change({ seq: null })}>Close</button>`;
  return html`
    <${Card} title="The page that this visitor got then" note=${`record ${seq}`} actions=${close} wide>
      <${Answer} of=${answer}>${(data) => html`<${PastDecision} data=${data} site=${site} />`}<//>
    <//>
  `;
}

function PastDecision({ data, site }) {
  if (data.missing.length > 0) {
    return html`<${Notice} tone="bad">This page cannot be explained. ${data.missing.map(({ detail }) => detail).join(' ')}<//>`;
  }
  return html`
    <p>${dateTime(data.timestamp, site.timeZone)}, <bdi>${data.route}</bdi>, version ${data.version}</p>
    ${data.differs !== false && html`<${Notice} tone="bad">The record says ${data.differs ? html`<bdi>${data.recorded.variants || 'the default page'}</bdi>` : 'nothing'} about the variants.<//>`}
    <${DecisionList} data=${data} />
  `;
}

const DecisionList = ({ data }) => html`
  <div class="stack">
    ${data.decisions.map((decision) => html`<${Decision} key=${decision.zone} decision=${decision} />`)}
    <${Details} summary="The visitor as the rules saw it">${() => html`<${Json} label="The visitor as the rules saw it" value=${data.visitor} />`}<//>
  </div>
`;

function Decisions({ data }) {
  if (data.type === 'redirect') {
    return html`<${Notice}>This path redirects to <bdi>${data.to}</bdi> (status ${data.status}).<//>`;
  }
  return html`
    ${data.decisions.length === 0 && html`<p class="dim">No zone of this page has rules. Everybody gets the same page.</p>`}
    <div class="split">
      <${DecisionList} data=${data} />
      <div>
        <h3>Outline of the page</h3>
        <p class="dim small">${data.layout.root?.props?.title ?? data.route}</p>
        <${Scroll} label="Outline of the page"><${Zones} zones=${data.layout.zones} decisions=${data.decisions} /><//>
      </div>
    </div>
  `;
}

const SOURCES = {
  audience: 'an audience',
  when: 'a condition',
  experiment: 'an experiment',
  default: 'no rule matched',
  forced: 'forced',
  crawler: 'a crawler gets the default',
};

function Decision({ decision: { zone, key, source, rules } }) {
  return html`
    <div class="decision">
      <h3>Zone <bdi>${zone}</bdi> shows <${Pill} tone=${key === 'default' ? 'neutral' : 'good'}><${Stranger} text=${key} /><//> <span class="dim">– ${SOURCES[source] ?? source}</span></h3>
      <ol class="rules">
        ${rules.map(
          (rule) => html`
          <li key=${rule.index} class=${rule.matched ? 'matched' : undefined}>
            <span class="verdict">${rule.matched ? 'matched' : 'did not match'}</span>
            <span><b>Rule ${rule.index + 1}:</b> <bdi>${ruleInWords(rule)}.</bdi></span>
            ${rule.why && html`<span class="dim small"><bdi>${reasonInWords(rule.why)}</bdi></span>`}
            ${rule.experiment && html`<span class="dim small"><bdi>${experimentInWords(rule)}</bdi></span>`}
          </li>
        `,
        )}
        ${source === 'default' && html`<li class="matched"><span class="verdict">default</span><span>No rule matched, so the zone shows its default.</span></li>`}
      </ol>
    </div>
  `;
}

function ruleInWords({ condition, experiment }) {
  const words = condition && capital(conditionInWords(condition));
  if (!experiment) return words ?? 'Always';
  return words ? `Experiment “${experiment.key}”, if ${conditionInWords(condition)}` : `Experiment “${experiment.key}”`;
}

const PLACES = {
  range: 'in the range of an arm',
  coverage: 'outside of the ranges of all arms',
  namespace: 'outside of the namespace',
  holdout: 'in the holdout',
};

function experimentInWords({ experiment }) {
  const ranges = experiment.ranges.map(([low, high]) => `${low}–${high}`).join(', ');
  return `The bucket of this visitor is ${experiment.hash ?? 'none'}: ${PLACES[experiment.in] ?? experiment.in.replace('_', ' ')}${experiment.enrolled ? ', enrolled' : ''}. Ranges of the arms: ${ranges}.`;
}

// A zone that has a decision shows its variant. Other zones hold what everybody sees.
const Zones = ({ zones, decisions }) => html`
  <ul class="outline">
    ${Object.entries(zones ?? {}).map(
      ([name, nodes]) => html`
      <li key=${name} class="zone">
        <span class="zone-name"><bdi>${name}</bdi> <${ZoneVariant} decision=${decisions.find(({ zone }) => zone === name)} /></span>
        ${nodes.length === 0 ? html`<p class="dim small">empty</p>` : html`<ul class="outline">${nodes.map((node, at) => html`<${Node} key=${at} node=${node} decisions=${decisions} />`)}</ul>`}
      </li>
    `,
    )}
  </ul>
`;

const ZoneVariant = ({ decision }) =>
  decision && html`<${Pill} tone=${decision.key === 'default' ? 'neutral' : 'good'}><${Stranger} text=${decision.key} /><//>`;

const LABELS = ['title', 'heading', 'text', 'label', 'name'];

function Node({ node, decisions }) {
  const label = LABELS.map((name) => node.props?.[name]).find((text) => typeof text === 'string');
  return html`
    <li class="node">
      <span class="node-type"><bdi>${node.type}</bdi></span>
      ${label && html` <span class="node-label"><bdi>${label}</bdi></span>`}
      ${node.query && html` <span class="dim small">query <bdi>${node.query.id}</bdi>, ${node.items?.length ?? 0} of ${node.total ?? 0} items</span>`}
      ${node.zones && html`<${Zones} zones=${node.zones} decisions=${decisions} />`}
    </li>
  `;
}

// Conditions in words. An operator or a form that has no words is shown as its JSON, so that nothing is hidden.

const WORDS = {
  $eq: 'is',
  $ne: 'is not',
  $gt: 'is more than',
  $gte: 'is at least',
  $lt: 'is less than',
  $lte: 'is at most',
  $in: 'is one of',
  $nin: 'is none of',
  $regex: 'matches',
  $regexi: 'matches, in any case,',
  $notRegex: 'does not match',
  $notRegexi: 'does not match, in any case,',
  $inGroup: 'is in the group',
  $notInGroup: 'is not in the group',
  $all: 'has all of',
  $size: 'has the size',
  $type: 'has the type',
  $veq: 'is the version',
  $vne: 'is not the version',
  $vgt: 'is a later version than',
  $vgte: 'is at least the version',
  $vlt: 'is an earlier version than',
  $vlte: 'is at most the version',
};

const PATHS = {
  'visitor.isNew': 'the visitor is new',
  'visitor.isReturning': 'the visitor came before',
  'visitor.visits': 'the number of visits',
  'visitor.pageViews': 'the number of page views',
  'visitor.lastSeen': 'the last event',
  'visitor.firstSeen': 'the first event',
  'now.hour': 'the hour',
  'now.weekday': 'the day of the week',
  'now.date': 'the date',
  'now.at': 'the time',
  'url.path': 'the path of the page',
  'device.type': 'the device',
  'device.os': 'the operating system',
  'device.browser': 'the browser',
  locale: 'the language',
  country: 'the country',
};

const DAYS = ['Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday', 'Sunday'];

function pathInWords(path) {
  if (PATHS[path]) return PATHS[path];
  const [, kind, rest] = /^(traits|events|pages|firstTouch|lastTouch|url\.query)\.(.+)$/s.exec(path) ?? [];
  const name = rest?.replace(/\.count$/, '');
  switch (kind) {
    case 'traits':
      return `the trait “${rest}”`;
    case 'events':
      return `the number of events “${name}”`;
    case 'pages':
      return `the number of views of ${name}`;
    case 'firstTouch':
      return `the ${rest} of the first touch`;
    case 'lastTouch':
      return `the ${rest} of the last touch`;
    case 'url.query':
      return `the parameter ${rest} of the URL`;
    default:
      return path;
  }
}

const valueInWords = (path, value) => {
  if (Array.isArray(value)) return value.map((item) => valueInWords(path, item)).join(', ');
  if (path === 'now.weekday' && DAYS[value - 1]) return DAYS[value - 1];
  if (path === 'now.hour' && typeof value === 'number') return `${value}:00`;
  return typeof value === 'string' ? `“${value}”` : JSON.stringify(value);
};

function operatorInWords(path, operator, operand) {
  const subject = pathInWords(path);
  if (operator === '$exists') return `${subject} is ${operand ? 'known' : 'not known'}`;
  if (operator === '$within') return `${subject} was within ${operand}`;
  if (operator === '$not') return `not (${memberInWords(path, operand)})`;
  if (operator === '$count') {
    const { within, ...bounds } = operand;
    return `${memberInWords(path, bounds)}${within ? ` within ${within}` : ''}`;
  }
  if (!WORDS[operator]) return `${subject} ${operator} ${JSON.stringify(operand)}`;
  return `${subject} ${WORDS[operator]} ${valueInWords(path, operand)}`;
}

function memberInWords(path, test) {
  if (path === 'visitor.isNew' || path === 'visitor.isReturning') {
    if (typeof test === 'boolean') return test ? PATHS[path] : `not (${PATHS[path]})`;
  }
  const isOperators =
    test !== null && typeof test === 'object' && !Array.isArray(test) && Object.keys(test).every((key) => key.startsWith('$'));
  if (!isOperators) return operatorInWords(path, '$eq', test);
  return Object.entries(test)
    .map(([operator, operand]) => operatorInWords(path, operator, operand))
    .join(' and ');
}

const group = (conditions, word) => {
  const parts = conditions.map(conditionInWords);
  return parts.length === 1 ? parts[0] : parts.map((part) => (/ (and|or) /.test(part) ? `(${part})` : part)).join(` ${word} `);
};

// Returns a condition as an English clause without a full stop.
export function conditionInWords(condition) {
  const members = Object.entries(condition ?? {});
  if (members.length === 0) return 'always';
  const parts = members.map(([path, test]) => {
    if (path === '$and') return group(test, 'and');
    if (path === '$or') return group(test, 'or');
    if (path === '$nor') return `none of: ${group(test, 'or')}`;
    if (path === '$not') return `not (${conditionInWords(test)})`;
    if (path === '$audience') return `the visitor is in the audience “${test}”`;
    return memberInWords(path, test);
  });
  return parts.length === 1 ? parts[0] : parts.map((part) => (/ or /.test(part) ? `(${part})` : part)).join(' and ');
}

// Returns the reason that explain gives for a rule.
export function reasonInWords({ path, operator, expected, actual }) {
  const subject = capital(pathInWords(path));
  if (typeof actual === 'boolean') return `${subject}: ${actual ? 'yes' : 'no'}.`;
  const found = actual === null || actual === undefined ? 'is not known' : `is ${valueInWords(path, actual)}`;
  const wanted = WORDS[operator] ? ` The rule asks that it ${WORDS[operator]} ${valueInWords(path, expected)}.` : '';
  return `${subject} ${found}.${wanted}`;
}
