// Publishing: the served versions, the files of the snapshots directory, and what changed between versions.
import { html, useEffect, useRef, useState } from './vendor/preact-htm.js';
import { Bars } from './bars.js';
import { CompareButton, Comparison, bytes, useComparison } from './changes.js';
import { POLL_MS, ago, count, counted, dateTime, shortCount, url, useAnswer } from './core.js';
import { Answer, Card, Code, Empty, Notice, Pill, Scroll, Select, Stranger, Table, Tile } from './parts.js';
import { may } from './rights.js';

export function Publishing({ site, sites: answer }) {
  return html`<div class="gap-top"><${Answer} of=${answer}>${(data) => html`<${Published} key=${site?.site} data=${data} site=${site} />`}<//></div>`;
}

// The caller gives it the site as its key, so that a comparison ends when another site is chosen.
function Published({ data, site }) {
  const refused = data.files.filter(({ reason }) => reason);
  const comparison = useComparison();
  return html`
    ${refused.map(
      ({ name, reason, state }) => html`
      <${Notice} key=${name} tone="bad">
        <strong>The server refuses <bdi>${name}</bdi>.</strong> <bdi>${reason}</bdi>
        ${state === 'served' && ' It still serves the last valid content of this name.'}
      <//>
    `,
    )}
    <${Card} title="Sites" wide><${Sites} sites=${data.sites} /><//>
    ${site && may('decisions', site.site) && html`<${Changes} site=${data.sites.find((one) => one.site === site.site) ?? site} />`}
    <${Card} title="Files" note="of the snapshots directory" wide><${Files} files=${data.files} comparison=${comparison} /><//>
    ${may('changes', site?.site) && html`<${Comparison} site=${site} comparison=${comparison} />`}
    <${Card} title="Publish a new version">
      <p class="dim small">Compile into the snapshots directory. The server serves the file within a second.</p>
      <${Code} label="Command to publish" text="parallax compile my-site -o snapshots/" />
      <p class="dim small">Go back to the version before:</p>
      <${Code} label="Command to roll back" text=${`parallax rollback snapshots/ ${site?.site ?? 'my-site'}`} />
    <//>
  `;
}

function Sites({ sites }) {
  const columns = [
    {
      name: 'Site',
      isHead: true,
      of: (one) =>
        html`<b><bdi>${one.name ?? one.site}</bdi></b> <span class="dim"><bdi>${one.site}</bdi></span>${one.preview && html` <${Pill}>preview <bdi>${one.preview}</bdi><//>`}`,
    },
    { name: 'Version', of: (one) => one.version },
    { name: 'Served since', of: (one) => html`<span title=${dateTime(one.servedSince, one.timeZone)}>${ago(one.servedSince)}</span>` },
    { name: 'Time zone', of: (one) => one.timeZone },
    { name: 'Tracking ID', of: (one) => html`<code>${one.trackingId}</code>` },
    { name: 'Routes', isNumber: true, of: (one) => count(one.routes) },
  ];
  if (sites.length === 0) return html`<${Empty}>No site is published.<//>`;
  return html`<${Scroll} label="Sites"><${Table} stacks label="Sites" columns=${columns} rows=${sites} keyOf=${(one) => one.site} /><//>`;
}

const TONES = { served: 'good', refused: 'bad', superseded: 'neutral' };

function Files({ files, comparison }) {
  const columns = [
    { name: 'File', isHead: true, of: ({ name }) => html`<${Stranger} text=${name} />` },
    { name: 'State', of: ({ state }) => html`<${Pill} tone=${TONES[state]}>${state}<//>` },
    { name: 'Site', of: (file) => html`<${Stranger} text=${file.site ?? '–'} />` },
    { name: 'Version', of: ({ version }) => version ?? '–' },
    { name: 'Size', isNumber: true, of: (file) => bytes(file.bytes) },
    { name: 'Comparison', of: (file) => (file.state === 'superseded' && may('changes', file.site) ? html`<${CompareButton} file=${file} comparison=${comparison} />` : '–') },
  ];
  if (files.length === 0) return html`<${Empty}>The directory has no snapshot.<//>`;
  return html`<${Scroll} label="Files"><${Table} stacks label="Files" columns=${columns} rows=${files} keyOf=${({ name }) => name} /><//>`;
}

function Changes({ site }) {
  const versions = (site.versions ?? []).filter((version) => version !== site.version);
  const [since, setSince] = useState(null);
  const chosen = versions.includes(since) ? since : versions[0];
  const picker = html`<${Select} label="Since version" value=${chosen} options=${versions.map((version) => [version, `since version ${version}`])} onChange=${setSince} />`;
  return html`
    <${Card} title="Changed routes" actions=${chosen && picker} wide>
      ${chosen ? html`<${ChangedRoutes} key=${chosen} site=${site} since=${chosen} />` : html`<${Empty}>The server has served one version only.<//>`}
    <//>
  `;
}

function ChangedRoutes({ site, since }) {
  const answer = useAnswer(url('v1/routes', { site: site.site, since, v: site.version }));
  return html`<${Answer} of=${answer}>${(data) => html`<${RouteList} data=${data} />`}<//>`;
}

function RouteList({ data }) {
  const rows = [
    ...data.routes.map(({ path }) => [path, 'new or changed']),
    ...data.redirects.map(({ from, to }) => [from, `redirects to ${to}`]),
    ...data.removed.map((path) => [path, 'removed']),
    ...data.queries.map(({ id }) => [`query ${id}`, 'new or changed']),
    ...data.removedQueries.map((id) => [`query ${id}`, 'removed']),
  ];
  if (data.since === null) return html`<${Empty}>The server no longer knows the paths of this version.<//>`;
  if (rows.length === 0) return html`<${Empty}>No route differs.<//>`;
  const columns = [
    { name: 'Path', isHead: true, of: ([path]) => html`<${Stranger} text=${path} />` },
    { name: 'Change', of: ([, change]) => html`<${Stranger} text=${change} />` },
  ];
  return html`
    <p class="dim small">${counted(rows.length, 'difference')}${data.nextCursor ? ' on the first page' : ''}</p>
    <${Scroll} label="Changed routes"><${Table} label="Changed routes" columns=${columns} rows=${rows} keyOf=${([path]) => path} /><//>
  `;
}

// Health: the metrics of this server in numbers that a person can read. Rates and quantiles are those of the time between two
// readings. Before the second reading they are those since the start.

const LINE = /^([a-zA-Z_:]+)(?:\{(.*)\})? (\S+)$/;
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g;

// Parses the text format of Prometheus to samples { name, labels, value }.
export function parseMetrics(text) {
  const samples = [];
  for (const line of text.split('\n')) {
    const [, name, labels, value] = LINE.exec(line) ?? [];
    if (name)
      samples.push({
        name,
        labels: Object.fromEntries([...(labels ?? '').matchAll(LABEL)].map(([, key, text]) => [key, text])),
        value: Number(value),
      });
  }
  return samples;
}

const find = (samples, name, labels = {}) =>
  samples.filter((sample) => sample.name === name && Object.entries(labels).every(([key, value]) => sample.labels[key] === value));
const sum = (samples, name, labels) => find(samples, name, labels).reduce((total, { value }) => total + value, 0);
const one = (samples, name) => find(samples, name)[0]?.value;

// Adds the buckets of all histograms with these labels. Returns [upper bound, number up to it] in order.
function buckets(samples, name, labels) {
  const added = new Map();
  for (const {
    labels: { le },
    value,
  } of find(samples, `${name}_bucket`, labels))
    added.set(le, (added.get(le) ?? 0) + value);
  return [...added].map(([le, value]) => [le === '+Inf' ? Infinity : Number(le), value]).sort(([a], [b]) => a - b);
}

const totalOf = (buckets) => buckets.at(-1)?.[1] ?? 0;

// Returns the upper bound of the bucket that holds the quantile, without the requests of an earlier reading. After a restart the
// counters have fallen, so the reading is the first one.
export function quantile(now, before, share) {
  const earlier = new Map(totalOf(before) > totalOf(now) ? [] : before);
  const passed = now.map(([bound, value]) => [bound, value - (earlier.get(bound) ?? 0)]);
  const total = totalOf(passed);
  return total > 0 ? passed.find(([, value]) => value >= share * total)[0] : null;
}

// Returns the quantile since the earlier reading in words, or since the start if nothing passed. The last bucket has no upper bound.
export function quantileInWords(now, before, share) {
  const bound = quantile(now, before, share) ?? quantile(now, [], share);
  if (bound === null) return '–';
  return bound === Infinity ? `> ${seconds(now.at(-2)?.[0])}` : `≤ ${seconds(bound)}`;
}

// Keeps the reading before the present one, with the time between them in seconds.
function useReadings(text) {
  const last = useRef(null);
  const [readings, setReadings] = useState(null);
  useEffect(() => {
    if (!text) return;
    const now = { at: performance.now(), samples: parseMetrics(text) };
    const before = last.current ?? { at: now.at, samples: [] };
    setReadings({ now: now.samples, before: before.samples, passed: (now.at - before.at) / 1000, isFirst: last.current === null });
    last.current = now;
  }, [text]);
  return readings;
}

export function Health() {
  const metrics = useAnswer('metrics', { every: POLL_MS, isText: true });
  const ready = useAnswer('readyz', { every: POLL_MS, accept: 503 });
  const readings = useReadings(metrics.data);
  return html`
    <${Readiness} ready=${ready} />
    <${Answer} of=${{ ...metrics, isLoading: metrics.isLoading && !metrics.data }}>${() => readings && html`<${Numbers} ...${readings} />`}<//>
  `;
}

const STATES = {
  ready: ['good', 'ready'],
  starting: ['bad', 'starting'],
  draining: ['bad', 'draining'],
  unpublished: ['bad', 'no site is published'],
  not_recording: ['bad', 'not recording'],
};

const progressInWords = ({ done, of }) => `${count(done)} of ${count(of)}`;

function Readiness({ ready }) {
  if (ready.error) return html`<${Notice} tone="bad">${ready.error.message}<//>`;
  if (!ready.data) return null;
  const { status, recording, reading } = ready.data;
  const [tone, words] = STATES[status] ?? ['bad', status];
  return html`
    <div class="row gap">
      <${Pill} tone=${tone}>${words}<//>
      <${Pill} tone=${recording ? 'good' : 'bad'}>${!recording && 'not '}recording events<//>
      ${reading && html`<span class="dim">read: ${progressInWords(reading.visitors)} visitors, ${progressInWords(reading.log)} events</span>`}
    </div>
  `;
}

function Numbers({ now, before, passed, isFirst }) {
  const rate = (name) => {
    const grown = sum(now, name) - sum(before, name);
    return isFirst || passed === 0 || grown < 0 ? null : grown / passed;
  };
  const perSecond = (value) => (value === null ? '…' : `${value < 10 ? value.toFixed(1) : shortCount(Math.round(value))}/s`);
  const sync = buckets(now, 'parallax_sync_seconds');
  const syncBefore = buckets(before, 'parallax_sync_seconds');
  return html`
    <div class="tiles">
      <${Tile} label="Requests" value=${perSecond(rate('parallax_http_request_duration_seconds_count'))} note=${`${count(sum(now, 'parallax_http_request_duration_seconds_count'))} since the start`} />
      <${Tile} label="Events recorded" value=${perSecond(rate('parallax_events_accepted_total'))} note=${`${count(one(now, 'parallax_events_accepted_total'))} since the start`} />
      <${Tile} label="Waiting for the disk" value=${one(now, 'parallax_queue_requests') ?? '–'} note=${bytes(one(now, 'parallax_queue_bytes') ?? 0)} />
      <${Tile} label="Sync, p99" value=${quantileInWords(sync, syncBefore, 0.99)} note=${`p50 ${quantileInWords(sync, syncBefore, 0.5)}`} />
      <${Tile} label="Visitors in memory" value=${one(now, 'parallax_visitors') ?? '–'} note=${bytes(one(now, 'parallax_visitors_bytes') ?? 0)} />
    </div>
    <${Warnings} now=${now} />
    <${Card} title="Latency" note=${isFirst ? 'since the start' : 'of the last seconds, or since the start'} wide><${Latency} now=${now} before=${before} /><//>
    <div class="cards loose">
      <${Card} title="Log"><${Facts} rows=${logFacts(now)} /><//>
      <${Card} title="Server"><${Facts} rows=${serverFacts(now)} /><//>
      <${Card} title="Memory limits"><${Memory} now=${now} /><//>
      <${Card} title="Problems sent"><${Labelled} samples=${find(now, 'parallax_http_problems_total')} label="code" unit="Code" /><//>
      <${Card} title="Events dropped or rejected">
        <${Labelled} samples=${[...find(now, 'parallax_events_dropped_total'), ...find(now, 'parallax_events_rejected_total')]} label="reason" unit="Reason" />
      <//>
    </div>
  `;
}

// Each is 0 in a healthy server, or the sentence tells what to do.
const WARNINGS = [
  ['parallax_log_write_errors_total', 'disk operations of the log failed. Look at the disk and at the server log.'],
  ['parallax_log_damaged', 'places of the data directory are damaged. Run parallax check on it.'],
  ['parallax_snapshots_refused', 'snapshot files are refused. The page Publishing has the reasons.'],
  ['parallax_duplicates_evicted_total', 'message IDs left the dedup window before 24 hours. A retry of such an event is recorded twice.'],
  ['parallax_visitors_evicted_total', 'visitors were evicted at the limit of --profiles-memory.'],
  ['parallax_checkpoint_failures_total', 'checkpoints failed. A start reads more of the log.'],
  ['parallax_jobs_panicked_total', 'exports or erasures failed unexpectedly. The server log has the cause.'],
  ['parallax_webhook_pending', 'sites wait for the receiver of --on-publish.'],
];

const Warnings = ({ now }) =>
  WARNINGS.filter(([name]) => one(now, name) > 0).map(
    ([name, sentence]) => html`<${Notice} key=${name} tone="bad"><b>${count(one(now, name))}</b> ${sentence}<//>`,
  );

function Latency({ now, before }) {
  const name = 'parallax_http_request_duration_seconds';
  const endpoints = [...new Set(find(now, `${name}_count`).map(({ labels }) => labels.endpoint))];
  if (endpoints.length === 0) return html`<${Empty}>No request yet.<//>`;
  const row = (endpoint) => {
    const [all, early] = [now, before].map((samples) => buckets(samples, name, { endpoint }));
    const of = (share) => quantileInWords(all, early, share);
    return {
      endpoint,
      requests: sum(now, `${name}_count`, { endpoint }),
      failed: sum(now, `${name}_count`, { endpoint, status: '5xx' }),
      p50: of(0.5),
      p90: of(0.9),
      p99: of(0.99),
    };
  };
  const columns = [
    { name: 'Endpoint', isHead: true, of: ({ endpoint }) => endpoint },
    { name: 'Requests', isNumber: true, of: ({ requests }) => count(requests) },
    { name: '5xx', isNumber: true, of: ({ failed }) => count(failed) },
    ...['p50', 'p90', 'p99'].map((key) => ({ name: key, isNumber: true, of: (line) => line[key] })),
  ];
  const rows = endpoints.map(row).sort((a, b) => b.requests - a.requests);
  return html`<${Scroll} label="Latency"><${Table} stacks label="Latency by endpoint" columns=${columns} rows=${rows} keyOf=${({ endpoint }) => endpoint} /><//>`;
}

function Memory({ now }) {
  const terms = find(now, 'parallax_memory_max_bytes').map(({ labels, value }) => [labels.holder, value]);
  const columns = [
    { name: 'Holder', isHead: true, of: ([holder]) => holder },
    { name: 'At most', isNumber: true, of: ([, value]) => bytes(value) },
  ];
  const total = terms.reduce((all, [, value]) => all + value, 0);
  return html`
    <p class="dim small">${bytes(one(now, 'process_resident_memory_bytes') ?? 0)} resident now, at most ${bytes(total)} in all.</p>
    <${Table} label="Memory limits" columns=${columns} rows=${terms} keyOf=${([holder]) => holder} />
  `;
}

const Facts = ({ rows }) => html`<dl>${rows.map(([name, value]) => html`<dt key=${name}>${name}</dt><dd>${value}</dd>`)}</dl>`;

const logFacts = (now) => [
  ['last event', count(one(now, 'parallax_log_seq'))],
  ['on disk up to', count(one(now, 'parallax_log_durable_seq'))],
  ['segments', count(one(now, 'parallax_log_segments'))],
  ['deleted by retention', count(one(now, 'parallax_log_segments_deleted_total'))],
  ['without columns', count(one(now, 'parallax_insights_segments_behind'))],
  ['written', bytes(one(now, 'parallax_log_bytes_total') ?? 0)],
  ['duplicates', count(one(now, 'parallax_events_duplicate_total'))],
  ['checkpoint up to', count(one(now, 'parallax_checkpoint_covered_seq'))],
];

const serverFacts = (now) => [
  ['release', find(now, 'parallax_build_info')[0]?.labels.version],
  ['started', ago(one(now, 'process_start_time_seconds') * 1000)],
  ['connections', `${count(one(now, 'parallax_connections'))} of ${count(one(now, 'parallax_connections_max'))}`],
  ['open files', count(one(now, 'process_open_fds'))],
  ['snapshots', bytes(one(now, 'parallax_snapshots_memory_bytes') ?? 0)],
  ['sent', bytes(one(now, 'parallax_http_response_bytes_total') ?? 0)],
  ['questions, p99', quantileInWords(buckets(now, 'parallax_insights_query_seconds'), [], 0.99)],
];

function Labelled({ samples, label, unit }) {
  const rows = samples.filter(({ value }) => value > 0).sort((a, b) => b.value - a.value);
  if (rows.length === 0) return html`<${Empty}>None since the start.<//>`;
  return html`<${Bars} label=${unit} unit=${unit} columns=${['Count']} rows=${rows.map(({ labels, value }) => ({ value: labels[label] ?? Object.values(labels)[0], numbers: [value] }))} />`;
}

function seconds(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return '–';
  if (value < 0.001) return `${Math.round(value * 1e6)} µs`;
  if (value < 1) return `${(value * 1000).toFixed(value < 0.01 ? 1 : 0)} ms`;
  return `${value.toFixed(value < 10 ? 1 : 0)} s`;
}
