// The parts that the pages share. Texts that strangers choose become text nodes inside `bdi`, so that a right-to-left mark in
// one cannot reorder the words around it.
import { html, useEffect, useRef, useState } from './vendor/preact-htm.js';
import { axisTime, bucketName, count, day, isLinked, isTemporary, relativeChange, shortCount } from './core.js';

export const Stranger = ({ text }) => html`<bdi>${text}</bdi>`;

export const Card = ({ title, note, actions, children, wide }) => html`
  <section class=${wide ? 'card wide' : 'card'} aria-label=${typeof title === 'string' ? title : undefined}>
    ${title && html`<div class="card-head"><h2>${title}</h2>${note && html`<span class="dim small">${note}</span>`}${actions}</div>`}
    ${children}
  </section>
`;

export const Pill = ({ tone = 'neutral', children }) => html`<span class=${`pill ${tone}`}>${children}</span>`;

export const Notice = ({ tone = 'neutral', children }) => html`
  <div class=${`notice ${tone}`} role=${{ bad: 'alert', good: 'status' }[tone]}>${children}</div>
`;

export const Empty = ({ children }) => html`<p class="empty">${children}</p>`;

// Shows `children` of an answer, or why there is none. An old answer stays, greyed, while the next one loads or the server is busy.
export function Answer({ of: { data, error, isLoading }, children }) {
  const isKept = data !== undefined && (!error || isTemporary(error));
  if (!error && !isKept) return isLoading ? html`<p class="empty" role="status">Loading …</p>` : null;
  return html`
    ${error && html`<${Fault} error=${error} isKept=${isKept} />`}
    ${isKept && html`<div class=${isLoading ? 'stale' : error && 'greyed'} aria-busy=${isLoading}>${children(data)}</div>`}
  `;
}

const Fault = ({ error, isKept }) => html`
  <${Notice} tone="bad">
    <strong>${error.status === 404 ? 'Not available. ' : 'No answer. '}</strong>${error.message}
    ${isTemporary(error) && ' The console asks again by itself.'}${isKept && ' The last answer is below.'}
  <//>
`;

const isLong = (value) => typeof value === 'string' && value.length > 8;

// A large number with its label and, below, its change or a note.
export const Tile = ({ label, value, note, change }) => html`
  <div class="tile">
    <div class="tile-label">${label}</div>
    <div class=${isLong(value) ? 'tile-value words' : 'tile-value'} title=${typeof value === 'number' ? count(value) : undefined}>${typeof value === 'number' ? shortCount(value) : value}</div>
    ${change && html`<${Change} ...${change} />`}
    ${note && html`<div class="dim small">${note}</div>`}
  </div>
`;

const ARROWS = { 1: '▲', 0: '', '-1': '▼' };

// `words` writes the numbers. If `now` is of a part of the range, it is written too. A plain change has no colour, because more of the number is not better.
export function Change({ now, before, isPart, isPlain, words = count }) {
  const { text, direction } = relativeChange(now, before);
  const tone = isPlain ? 'dim' : direction > 0 ? 'up' : direction < 0 ? 'down' : 'dim';
  return html`<div class="small change">
    <span class=${tone}><span aria-hidden="true">${ARROWS[direction]} </span>${text}</span>${!!before && html` <span class="dim">from ${words(before)}${isPart && ` to ${words(now)}`}</span>`}
  </div>`;
}

// A region that scrolls must take the focus, so that the keyboard can scroll it.
// `isWhole` shows all rows: a row below the edge of a box looks like an absent one.
export const Scroll = ({ label, isWhole, children }) => html`<div class=${isWhole ? 'scroll whole' : 'scroll'} role="region" aria-label=${label} tabindex="0">${children}</div>`;

// A table. A column is { name, of, isNumber }. `of` returns the content of a cell for a row. With `stacks` a phone shows each row as
// a list. The roles are named, because a row that is displayed as a list loses its own. With `hasCaption` the label is visible.
export const Table = ({ label, columns, rows, keyOf, stacks, hasCaption }) => html`
  <table aria-label=${label} role="table" class=${stacks && 'stacks'}>
    ${hasCaption && html`<caption>${label}</caption>`}
    <thead role="rowgroup">
      <tr role="row">${columns.map(({ name, isNumber }) => html`<th scope="col" role="columnheader" class=${isNumber && 'number'}>${name}</th>`)}</tr>
    </thead>
    <tbody role="rowgroup">
      ${rows.map((row, at) => html`<tr key=${keyOf ? keyOf(row) : at} role="row">${columns.map((column) => cell(column, row))}</tr>`)}
    </tbody>
  </table>
`;

const cell = ({ name, of, isNumber, isHead }, row) =>
  isHead
    ? html`<th scope="row" role="rowheader">${of(row)}</th>`
    : html`<td role="cell" class=${isNumber && 'number'} data-name=${name}><div>${of(row)}</div></td>`;

// A closed section. Its content is made when it is opened first, because a table can be long.
export function Details({ summary, children }) {
  const [isOpen, setOpen] = useState(false);
  return html`
    <details open=${isOpen} onToggle=${(event) => setOpen(event.currentTarget.open)}>
      <summary>${summary}</summary>
      ${isOpen && children()}
    </details>
  `;
}

export const Select = ({ label, value, options, onChange, isHidden = true }) => html`
  <label class="field">
    <span class=${isHidden ? 'hidden' : 'field-label'}>${label}</span>
    <select value=${value} disabled=${isLinked} onChange=${(event) => onChange(event.currentTarget.value)}>
      ${options.map(([key, text]) => html`<option key=${key} value=${key} selected=${key === value}>${text}</option>`)}
    </select>
  </label>
`;

export const Field = ({ label, ...props }) => html`
  <label class="field"><span class="field-label">${label}</span><input ...${props} /></label>
`;

// A text with a button that copies it. Without HTTPS a browser has no clipboard, so the button selects the text.
export function Code({ label, text }) {
  const [done, setDone] = useState('Copy');
  const shown = useRef(null);
  useEffect(() => setDone('Copy'), [text]);
  const select = () => {
    getSelection().selectAllChildren(shown.current);
    setDone('Selected');
  };
  const copy = () => (navigator.clipboard ? navigator.clipboard.writeText(text).then(() => setDone('Copied'), select) : select());
  return html`
    <div class="code">
      <button type="button" class="quiet" onClick=${copy}><span role="status">${done}</span></button>
      <${Scroll} label=${label}><pre ref=${shown}><bdi>${text}</bdi></pre><//>
    </div>
  `;
}

// A value of JSON as text. Long documents scroll.
export const Json = ({ value, label }) => html`<${Scroll} label=${label}><pre><bdi>${JSON.stringify(value, null, 2)}</bdi></pre><//>`;

// Saves a CSV. `run` returns a promise.
export function Csv({ run }) {
  const [problem, setProblem] = useState('');
  const save = () => {
    setProblem('');
    run().catch(({ message }) => setProblem(message));
  };
  return html`<button type="button" class="quiet" onClick=${save}>CSV</button><span class="down" role="status">${problem}</span>`;
}

// The line below the numbers: up to where they are exact, and how to get them elsewhere.
export const Footer = ({ data, csv, children }) => html`
  <footer class="footer dim">
    ${data.unknown?.map(({ filter, value }) => html`<span key=${`${filter} ${value}`}>No kept event has the ${filter === 'more' ? 'goal' : filter} <bdi>${value}</bdi></span>`)}
    <span>Exact, up to event ${count(Number(data.seq))}</span>
    ${data.took && html`<span>${count(data.took.rows)} records in ${count(Math.round(data.took.ms))} ms</span>`}
    ${data.timeZone && html`<span>${data.timeZone}</span>`}
    ${data.since && html`<span>received since ${day(data.since, data.timeZone)}</span>`}
    ${children}
    ${csv && html`<${Csv} run=${csv} />`}
    ${data.sql && html`<${Details} summary="SQL">${() => html`<${Code} label="The query over parallax export" text=${data.sql} />`}<//>`}
  </footer>
`;

// A line chart over time by uPlot, with its values as a table below.

const HEIGHT_PX = 240;
const token = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const color = (at) => token(`--series-${(at % 6) + 1}`);
const DASHES = [[], [], [6, 3], [2, 3], [8, 3, 2, 3], [1, 2]];
const COMPARED_DASH = [3, 3];
const dashOf = (at, like) => (like === undefined ? DASHES[at % DASHES.length] : COMPARED_DASH);

// The last bucket of a running day is not complete, and its line would look like a drop. It is drawn as dots.
function splitRunning(values, isRunning) {
  const last = values.length - 1;
  if (!isRunning || last < 1) return [values];
  return [values.map((value, at) => (at === last ? null : value)), values.map((value, at) => (at < last - 1 ? null : value))];
}

function lines({ series, isRunning, isFilled }) {
  return series.flatMap(({ name, values, like }, at) =>
    splitRunning(values, isRunning).map((part, isLast) => ({
      values: part,
      options: {
        label: name,
        stroke: color(like ?? at),
        width: 2,
        fill: at === 0 && isFilled && !isLast ? token('--fill-1') : undefined,
        dash: isLast ? [2, 4] : dashOf(at, like),
        points: { show: values.length < 3 },
      },
    })),
  );
}

const axis = (extra) => ({
  stroke: token('--dim'),
  grid: { stroke: token('--line'), width: 1 },
  ticks: { show: false },
  font: '12px system-ui, sans-serif',
  ...extra,
});

// Draws a vertical line at each marked instant, such as the begin of a phase. A label that would cover the one before is left out.
function drawMarks(plot, marks) {
  const { ctx, bbox } = plot;
  const right = bbox.left + bbox.width;
  const gap = 4 * devicePixelRatio;
  let free = Infinity;
  ctx.save();
  ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
  ctx.textAlign = 'left';
  ctx.textBaseline = 'top';
  for (const { t, label = '', isQuiet } of marks) {
    const x = plot.valToPos(t, 'x', true);
    if (x < bbox.left || x > right) continue;
    ctx.strokeStyle = ctx.fillStyle = token(isQuiet ? '--dim' : '--bad');
    ctx.setLineDash(isQuiet ? [2, 3] : [4, 4]);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    const { width } = ctx.measureText(label);
    const left = x + gap + width > right ? x - gap - width : x + gap;
    if (left + width + gap > free) continue;
    ctx.fillText(label, left, bbox.top);
    free = left;
  }
  ctx.restore();
}

// Picks a mark that is at most so many pixels from a click.
const PICK_PX = 12;

function pickMark(plot, marks) {
  const isNear = ({ t }) => Math.abs(plot.valToPos(t, 'x') - plot.cursor.left) < PICK_PX;
  marks.find((mark) => mark.pick && isNear(mark))?.pick();
}

// A single instant is in the middle of a day. The range that uPlot gives for one instant in seconds has 1,000 days.
const HALF_DAY_S = 43_200;
const timeRange = (t) => (_, first, last) => (t.length === 1 ? [t[0] - HALF_DAY_S, t[0] + HALF_DAY_S] : [first, last]);

// Distances of the ticks of a number: 1, 2, 5, 10, 20 and so on. Visitors and views have no fractions.
const STEPS_OF_COUNTS = Array.from({ length: 45 }, (_, at) => [1, 2, 5][at % 3] * 10 ** Math.floor(at / 3));

function options(props, parts, width, setCursor, draw) {
  return {
    width,
    height: HEIGHT_PX,
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), props.timeZone),
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, points: { size: 7 } },
    scales: { x: { range: timeRange(props.t) }, y: { range: (_, __, most) => [0, Math.max(most * 1.08, 1)] } },
    axes: [
      axis({ space: 72, size: 34, values: (_, ticks, __, ___, step) => ticks.map((tick) => axisTime(tick, step, props.timeZone)) }),
      axis({ size: 56, incrs: STEPS_OF_COUNTS, values: (_, ticks) => ticks.map(shortCount) }),
    ],
    series: [{}, ...parts.map((part) => part.options)],
    hooks: { setCursor: [({ cursor }) => setCursor(cursor.idx ?? null)], draw: [draw] },
  };
}

// Makes the plot again if data, width or colour scheme change. Other marks are drawn on the same plot.
function usePlot(box, props, setCursor) {
  const { current } = useRef({});
  current.marks = props.marks;
  useEffect(() => {
    const parts = lines(props);
    const draw = () => {
      current.plot?.destroy();
      current.plot = new uPlot(
        options(props, parts, box.current.clientWidth, setCursor, (plot) => drawMarks(plot, current.marks)),
        [props.t, ...parts.map((part) => part.values)],
        box.current,
      );
      current.plot.over.addEventListener('click', () => pickMark(current.plot, current.marks));
    };
    const resized = new ResizeObserver(
      () => current.plot.width !== box.current.clientWidth && current.plot.setSize({ width: box.current.clientWidth, height: HEIGHT_PX }),
    );
    const scheme = matchMedia('(prefers-color-scheme: dark)');
    draw();
    resized.observe(box.current);
    scheme.addEventListener('change', draw);
    return () => {
      resized.disconnect();
      scheme.removeEventListener('change', draw);
    };
  }, [props.t, props.series, props.timeZone, props.isRunning]);
  useEffect(() => () => current.plot.destroy(), []);
  useEffect(() => {
    current.plot.redraw(false);
  }, [props.marks.map(({ t }) => t).join()]);
}

// `series` is a list of { name, values, like }. A compared series has the colour of the one with the index `like`. `marks` is a list of { t, label, isQuiet, pick }, newest first: instants with a line. A range in
// the future has no times.
export const Chart = (props) =>
  props.t.length > 0 ? html`<${Plot} ...${props} />` : html`<${Empty}>None in this range.<//>`;

function Plot(props) {
  const { label, t, series, by, timeZone, isRunning } = props;
  const box = useRef(null);
  const [at, setAt] = useState(null);
  usePlot(box, props, setAt);
  const shown = Math.min(at ?? Infinity, t.length - 1);
  const name = (index) => bucketName(t[index], by, timeZone) + (isRunning && index === t.length - 1 ? ' (so far)' : '');
  const columns = [
    { name: 'Time', isHead: true, of: (index) => name(index) },
    ...series.map((one) => ({ name: one.name, isNumber: true, of: (index) => count(one.values[index]) })),
  ];
  return html`
    <div class="legend">
      ${series.map((one, index) => html`<span><${Swatch} at=${index} like=${one.like} /><bdi>${one.name}</bdi> <b>${count(one.values[shown])}</b></span>`)}
      <span class="dim">${name(shown)}</span>
    </div>
    <div class="plot" ref=${box} aria-hidden="true"></div>
    <${Details} summary="As a table">
      ${() => html`<${Scroll} label=${`${label}, as a table`}><${Table} label=${label} columns=${columns} rows=${[...t.keys()].reverse()} /><//>`}
    <//>
  `;
}

const Swatch = ({ at, like }) => html`
  <svg class=${`swatch series-${((like ?? at) % 6) + 1}`} viewBox="0 0 18 8" aria-hidden="true">
    <line x1="0" x2="18" y1="4" y2="4" stroke-width="2.5" stroke-dasharray=${dashOf(at, like).join(' ')} />
  </svg>
`;
