// Funnels: the visitors that go through steps one after the other, and the pages of those that leave.
import { html, useLayoutEffect, useRef, useState } from './vendor/preact-htm.js';
import { Bars } from './bars.js';
import { Against, numberIn, pairOf, plain, shareInWords, withChange } from './compare.js';
import { change, count, counted, download, percent, readState, url, useAnswer } from './core.js';
import { itemInWords, questionOf } from './lists.js';
import { Answer, Card, Details, Empty, Field, Footer, Scroll, Select, Table } from './parts.js';
import { duration, stepInWords, useSteps } from './steps.js';

// The limits of the API.
const STEPS_MIN = 2;
const STEPS_MAX = 8;

const WINDOWS = [
  ['', 'Any time'],
  ['1h', '1 hour'],
  ['1d', '1 day'],
  ['7d', '7 days'],
  ['30d', '30 days'],
];
const UNITS = [
  ['', 'Visitors'],
  ['visit', 'Visits'],
];
// `by` in the URL is the time step of other pages.
const GROUPS = [
  ['', 'Nothing'],
  ['source', 'Source'],
  ['campaign', 'Campaign'],
  ['device', 'Device'],
  ['country', 'Country'],
];

const stepsOf = (query) => query.getAll('step').slice(0, STEPS_MAX);

const withOption = (options, value) => (options.some(([key]) => key === value) ? options : [...options, [value, value]]);

export function Funnels({ site, query, range }) {
  const steps = stepsOf(query);
  const option = (name, label, options) =>
    html`<${Select} label=${label} isHidden=${false} value=${query.get(name) ?? ''} options=${withOption(options, query.get(name) ?? '')} onChange=${(value) => change({ [name]: value || null })} />`;
  return html`
    ${steps.length >= STEPS_MIN ? html`<${Result} ...${{ site, query, range, steps }} />` : html`<p class="sentence">Choose ${STEPS_MIN} to ${STEPS_MAX} steps below, in the order in which visitors should take them.</p>`}
    <${Card} title="Steps" wide>
      <${Chosen} steps=${steps} goals=${site.goals} />
      <${Choices} site=${site} range=${range} steps=${steps} />
      <div class="row gap-top">
        ${option('window', 'From the first to the last step', WINDOWS)}
        ${option('per', 'Count', UNITS)}
        ${option('group', 'Compare by', GROUPS)}
      </div>
    <//>
  `;
}

// Changes the steps of the URL. A second click can come before the change of the first one is drawn, so the drawn steps are not used.
const changeSteps = (changed) => change({ step: changed(stepsOf(readState().query)) });

// Moves the step at a position before the one before it. The first step stays.
const movedUp = (steps, at) => (at > 0 ? steps.toSpliced(at - 1, 2, steps[at], steps[at - 1]) : steps);

// Returns the keys of steps. A funnel can have a step more than once.
const keysOf = (steps) => steps.map((step, at) => `${step} ${steps.slice(0, at).filter((one) => one === step).length}`);

// Returns the refs of the list and of the wanted focus. The button of a moved or removed step loses the focus. So the changed list sets
// the focus to the button of the step `at` that the selector finds first, but not if the person has gone on to a field.
function useFocus(steps) {
  const list = useRef(null);
  const wanted = useRef(null);
  useLayoutEffect(() => {
    if (!wanted.current) return;
    const { at, selector } = wanted.current;
    wanted.current = null;
    const focused = document.activeElement;
    if (focused !== document.body && !list.current.contains(focused)) return;
    const item = list.current.querySelectorAll('li')[Math.min(at, steps.length - 1)];
    (item?.querySelector(selector) ?? list.current).focus();
  }, [steps.join('\n')]);
  return [list, wanted];
}

function Chosen({ steps, goals }) {
  const [list, wanted] = useFocus(steps);
  const keys = keysOf(steps);
  // Changes the steps at the present position of one. A second click on the button of a removed step changes nothing.
  const changeAt = (key, changed) =>
    changeSteps((steps) => {
      const at = keysOf(steps).indexOf(key);
      return at === -1 ? steps : changed(steps, at);
    });
  const up = (steps, at) => {
    wanted.current = { at: at - 1, selector: 'button:enabled' };
    return movedUp(steps, at);
  };
  const remove = (steps, at) => {
    wanted.current = { at, selector: 'button:last-child' };
    return steps.toSpliced(at, 1);
  };
  const item = (step, at) => {
    const text = stepInWords(step, goals);
    return html`
      <li key=${keys[at]}>
        <bdi>${text}</bdi>
        <button type="button" class="quiet" disabled=${at === 0 || step === steps[at - 1]} aria-label=${`Move step ${at + 1} up: ${text}`} onClick=${() => changeAt(keys[at], up)}>↑</button>
        <button type="button" class="quiet" aria-label=${`Remove step ${at + 1}: ${text}`} onClick=${() => changeAt(keys[at], remove)}>×</button>
      </li>
    `;
  };
  return html`
    <div ref=${list} tabindex="-1">
      ${steps.length === 0 && html`<${Empty}>No step is chosen.<//>`}
      ${steps.length > 0 && html`<ol class="steps" aria-label="Chosen steps">${steps.map(item)}</ol>`}
    </div>
  `;
}

function Choices({ site, range, steps }) {
  const isFull = steps.length >= STEPS_MAX;
  const add = (step) => changeSteps((steps) => [...steps, step]);
  return html`
    ${isFull && html`<p class="dim small">A funnel has at most ${STEPS_MAX} steps.</p>`}
    ${useSteps(site, range)
      .filter((group) => group.steps.length > 0)
      .map(
        (group) => html`
        <div key=${group.name} class="choices" role="group" aria-label=${`Add a step: ${group.name}`}>
          <span class="dim small">${group.name}</span>
          ${group.steps.map(([step, text]) => html`<button key=${step} type="button" class="chip" disabled=${isFull} onClick=${() => add(step)}>+ <bdi>${text}</bdi></button>`)}
        </div>
      `,
      )}
    <${OtherStep} isFull=${isFull} add=${add} />
  `;
}

// A step that is not among the most frequent ones.
function OtherStep({ isFull, add }) {
  const [text, setText] = useState('');
  const submit = (event) => {
    event.preventDefault();
    const name = text.trim();
    setText('');
    if (name !== '') add(`${name.startsWith('/') ? 'page' : 'event'}:${name}`);
  };
  return html`
    <form class="row gap-top" onSubmit=${submit}>
      <${Field} label="Another path or event" value=${text} required maxlength="500" placeholder="/products/*" onInput=${(event) => setText(event.currentTarget.value)} />
      <button type="submit" disabled=${isFull}>Add</button>
    </form>
  `;
}

function Result({ site, query, range, steps }) {
  const { by, ...question } = { ...questionOf(site, query, range), by: query.get('group') };
  const address = url('insights/funnel', { ...question, step: steps, window: query.get('window'), per: query.get('per'), by });
  const answer = useAnswer(address);
  const csv = () => download(address, `funnel-${site.site}.csv`, 'text/csv');
  return html`<${Answer} of=${answer}>${(data) => html`<${Funnel} data=${data} site=${site} csv=${csv} />`}<//>`;
}

// The answer has its own steps, because the last answer stays while the next one loads.
function Funnel({ data, site, csv }) {
  const { steps, per, by, rows } = data;
  const names = steps.map(({ step }) => stepInWords(step, site.goals));
  return html`
    <p class="sentence"><${Sentence} data=${data} names=${names} unit=${per} /></p>
    <${Against} data=${data} timeZone=${site.timeZone} />
    <${Card} title="Funnel" wide><${StepTable} data=${data} names=${names} unit=${per} /><//>
    ${rows && html`<${Card} title=${`By ${by}`} wide><${Groups} data=${data} names=${names} /><//>`}
    <${Card} title="Next pages of those who left" wide>${steps.slice(0, -1).map(({ left }, at) => html`<${Left} key=${at} data=${data} at=${at} left=${left} name=${names[at]} unit=${per} />`)}<//>
    <${Footer} data=${data} csv=${csv} />
  `;
}

// Says how many of the first step reach the last one, and where most are lost.
function Sentence({ data, names, unit }) {
  const { steps } = data;
  const [first, ...others] = steps;
  const last = others.at(-1);
  if (first.reached === 0) return html`No ${unit} reached “<bdi>${names[0]}</bdi>” in this range.`;
  const at = others.reduce((most, _, index) => (steps[index].left.count > steps[most].left.count ? index : most), 0);
  return html`
    ${counted(last.reached, unit)} of ${count(first.reached)} (${percent(last.ofFirst)}${shareInWords(data, ({ steps }) => steps.at(-1).ofFirst, percent)}) went from “<bdi>${names[0]}</bdi>” to “<bdi>${names.at(-1)}</bdi>”.
    ${steps[at].left.count > 0 && html` Most left after “<bdi>${names[at]}</bdi>”: ${count(steps[at].left.count)}.`}
  `;
}

function StepTable({ data, names, unit }) {
  const { steps } = data;
  const change = (at, key, words) => withChange(words(steps[at][key]), pairOf(data, ({ steps }) => steps[at][key]), words);
  const number = (name, of) => ({ name, isNumber: true, of });
  const columns = [
    { name: 'Step', isHead: true, of: (at) => html`${at + 1}. <bdi>${names[at]}</bdi><${Share} share=${steps[at].ofFirst} />` },
    number(unit === 'visit' ? 'Visits' : 'Visitors', (at) => change(at, 'reached', count)),
    number('Of the first step', (at) => change(at, 'ofFirst', percent)),
    number('Of the step before', (at) => change(at, 'ofBefore', percent)),
    number('Median time', (at) => withChange(duration(steps[at].medianMs), plain(pairOf(data, ({ steps }) => steps[at].medianMs)), duration)),
  ];
  return html`<${Scroll} label="Funnel, table" isWhole><${Table} label="Funnel" stacks columns=${columns} rows=${[...steps.keys()]} /><//>`;
}

const Share = ({ share }) => html`
  <svg class="size" aria-hidden="true" viewBox="0 0 100 6" preserveAspectRatio="none">
    <rect class="track" width="100" height="6" />
    <rect class="least" width=${100 * (share ?? 0)} height="6" />
  </svg>
`;

function Groups({ data, names }) {
  if (data.rows.length === 0) return html`<${Empty}>None in this range.<//>`;
  const columns = [
    { name: 'Value', isHead: true, of: ({ value }) => html`<bdi>${itemInWords(data.by, value)}</bdi>` },
    ...names.map((_, at) => ({
      name: `Step ${at + 1}`,
      isNumber: true,
      of: ({ value, steps }) =>
        withChange(
          html`${count(steps[at].reached)}${at > 0 && html` <span class="dim">${percent(steps[at].ofFirst)}</span>`}`,
          pairOf(data, ({ rows, more }) => numberIn(rows, more, (row) => row.value === value, ({ steps }) => steps[at].reached)),
        ),
    })),
  ];
  return html`
    <${Scroll} label="Funnel by value"><${Table} label="Funnel by value" stacks columns=${columns} rows=${data.rows} keyOf=${({ value }) => value ?? ''} /><//>
    ${data.more > 0 && html`<p class="dim small more">${count(data.more)} more values.</p>`}
  `;
}

function Left({ data, at, left, name, unit }) {
  const exits = { value: '', text: 'No later page', numbers: [left.exits], pair: plain(pairOf(data, ({ steps }) => steps[at].left.exits)) };
  const before = (value) => ({ steps }) => numberIn(steps[at].left.next, steps[at].left.more, (one) => one.value === value, ({ count }) => count);
  const next = ({ value, count }) => ({ value, text: itemInWords('page', value), numbers: [count], pair: plain(pairOf(data, before(value))) });
  const rows = [exits, ...left.next.map(next)];
  return html`
    <${Details} summary=${html`${counted(left.count, unit)} left after “<bdi>${name}</bdi>”`}>
      ${() => html`
        <${Bars} label=${`Next pages after ${name}`} unit="Next page" columns=${[unit === 'visit' ? 'Visits' : 'Visitors']} rows=${rows} isCompared=${!!data.compared} />
        ${left.more > 0 && html`<p class="dim small more">${count(left.more)} more pages.</p>`}
      `}
    <//>
  `;
}
