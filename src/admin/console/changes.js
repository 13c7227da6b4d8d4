// The changes that a snapshot would make if the server served it: a file of the snapshots directory, or one of this computer.
import { html, useEffect, useRef, useState } from './vendor/preact-htm.js';
import { capital, count, counted, request, url } from './core.js';
import { Card, Notice, Scroll, Stranger, Table } from './parts.js';

// The server takes at most this many bytes as the body of a request.
const PART_BYTES_MAX = 512 * 1024;

const COUNTING = 'The server compares the versions and counts the visitors. This takes up to 60 s.';

const post = async (params, init) => (await request(url('insights/changes', params), { method: 'POST', ...init })).json();

// A file that was moved or changed after the person chose it.
const lostFile = () => {
  throw new Error('The browser can no longer read the file. Choose it again.');
};

// Sends a file in parts, one after another. Returns the comparison.
async function upload(site, file, { signal, say }) {
  for (let offset = 0; ;) {
    const body = await file.slice(offset, offset + PART_BYTES_MAX).arrayBuffer().catch(lostFile);
    say(offset + body.byteLength < file.size ? `Sent ${bytes(offset)} of ${bytes(file.size)} …` : COUNTING);
    const answer = await post({ site, offset }, { body, signal });
    if (answer.received === undefined) return answer;
    if (answer.received >= file.size) throw new Error(`The file is incomplete: ${count(file.size)} of ${count(answer.bytes)} bytes.`);
    offset = answer.received;
  }
}

// Runs one comparison after another. Its state is { name, words } while it runs, and then { name, data } or { name, problem }.
export function useComparison() {
  const [state, setState] = useState({});
  const abort = useRef(null);
  useEffect(() => () => abort.current?.abort(), []);
  const start = async (name, run) => {
    abort.current = new AbortController();
    const { signal } = abort.current;
    const say = (words) => setState({ name, words });
    say(COUNTING);
    try {
      setState({ name, data: await run({ signal, say }) });
    } catch (problem) {
      if (!signal.aborted) setState({ name, problem });
    }
  };
  return {
    ...state,
    compareFile: ({ name, site }) => start(name, ({ signal }) => post({ site, file: name }, { signal })),
    compareUpload: (site, file) => start(file.name, (running) => upload(site, file, running)),
  };
}

export const CompareButton = ({ file, comparison }) => html`
  <button type="button" class="quiet" disabled=${!!comparison.words} onClick=${() => comparison.compareFile(file)}>
    What would change?<span class="hidden"> <bdi>${file.name}</bdi></span>
  </button>
`;

export function Comparison({ site, comparison }) {
  const { name, words, data, problem } = comparison;
  const result = useRef(null);
  // The button that began the comparison is disabled while it runs, so the focus moves to the words about it.
  useEffect(() => words && result.current.focus(), [!words, name]);
  const submit = (event) => {
    event.preventDefault();
    comparison.compareUpload(site.site, new FormData(event.currentTarget).get('snapshot'));
  };
  return html`
    <${Card} title="What would change?" note="if the server served another snapshot" wide>
      ${
        site &&
        html`
        <form class="row" onSubmit=${submit}>
          <label class="field grow">
            <span class="field-label">Compare a snapshot file</span>
            <input type="file" name="snapshot" accept=".snapshot" required />
          </label>
          <button type="submit" disabled=${!!words}>Compare</button>
        </form>
        <p class="dim small">The file must be one of site <bdi>${site.site}</bdi>. The server compares it with the version that it serves, and does not publish it.</p>
      `
      }
      <div ref=${result} tabindex="-1" class="gap-top" aria-busy=${!!words}>
        <p role="status">${words && html`<bdi>${name}</bdi>: ${words}`}</p>
        ${problem && html`<${Notice} tone="bad"><strong>No comparison of <bdi>${name}</bdi>. </strong><bdi>${problem.message}</bdi><//>`}
        ${data && html`<${Changes} name=${name} data=${data} />`}
      </div>
    <//>
  `;
}

const verb = (number) => (number === 1 ? 'changes' : 'change');

function Changes({ name, data }) {
  const { version, against, experiments, unchanged, holdout, zones, audiences } = data;
  const lists = [
    [experiments.length, 'experiment'],
    [zones.length, 'zone'],
    [audiences.length, 'audience'],
  ].filter(([number]) => number > 0);
  const changes = lists.map(([number, noun]) => `${counted(number, noun)} ${verb(number)}`);
  if (holdout) changes.push('the holdout of the site changes');
  return html`
    <p>
      <strong><bdi>${name}</bdi>, version ${version}, ${against.version === null ? `would be the first version of ${data.site}` : `in place of version ${against.version}`}:</strong>
      ${' '}${changes.length > 0 ? capital(changes.join(', ')) : 'No experiment, zone or audience changes, and the holdout of the site stays'}.
      ${' '}${counted(unchanged, 'experiment')} ${unchanged === 1 ? 'does' : 'do'} not change. The server knows ${counted(data.profiles, 'visitor')}.
    </p>
    ${holdout && html`<${Notice} tone=${holdout.warning ? 'bad' : 'neutral'}>Holdout of the site: <bdi>${holdout.text}</bdi>.<//>`}
    ${experiments.length > 0 && html`<${Experiments} rows=${experiments} />`}
    ${zones.length > 0 && html`<${Zones} rows=${zones} />`}
    ${audiences.length > 0 && html`<${Audiences} rows=${audiences} />`}
  `;
}

const List = ({ title, columns, rows, keyOf, children }) => html`
  <div class="gap-top">
    <h3>${title}</h3>
    <p class="dim small">${children}</p>
    <${Scroll} label=${title}><${Table} stacks label=${title} columns=${columns} rows=${rows} keyOf=${keyOf} /><//>
  </div>
`;

function Experiments({ rows }) {
  const columns = [
    { name: 'Experiment', isHead: true, of: ({ key }) => html`<${Stranger} text=${key} />` },
    { name: 'Change', of: ({ text }) => html`<${Stranger} text=${capital(text)} />` },
    { name: 'Enrolled IDs, served', isNumber: true, of: ({ enrolled }) => count(enrolled.before) },
    { name: 'Enrolled IDs, file', isNumber: true, of: ({ enrolled }) => count(enrolled.after) },
  ];
  return html`
    <${List} title="Experiments that change" columns=${columns} rows=${rows} keyOf=${({ key }) => key}>
      The IDs that are enrolled in the phase of the served version, and in that of the file.
    <//>
  `;
}

const range = [
  { name: 'At least', isNumber: true, of: ({ atLeast }) => count(atLeast) },
  { name: 'At most', isNumber: true, of: ({ atMost }) => count(atMost) },
];

const pagesInWords = ([first, ...others]) => (others.length > 0 ? `${first} and ${count(others.length)} more` : first);

function Zones({ rows }) {
  const columns = [
    { name: 'Zone', isHead: true, of: ({ name }) => html`<${Stranger} text=${name} />` },
    { name: 'Pages', of: ({ paths }) => html`<${Stranger} text=${pagesInWords(paths)} />` },
    { name: 'Change', of: ({ change }) => capital(change) },
    ...range,
  ];
  return html`
    <${List} title="Zones that change" columns=${columns} rows=${rows} keyOf=${({ name, paths }) => `${name} ${paths[0]}`}>
      The known visitors who get another variant: at least with every request, at most with some request.
    <//>
  `;
}

function Audiences({ rows }) {
  const columns = [
    { name: 'Audience', isHead: true, of: ({ name }) => html`<${Stranger} text=${name} />` },
    { name: 'Change', of: ({ change }) => capital(change) },
    ...range,
  ];
  return html`
    <${List} title="Audiences that change" columns=${columns} rows=${rows} keyOf=${({ name }) => name}>
      The known visitors who enter or leave it: at least with every request, at most with some request.
    <//>
  `;
}

const SIZES = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB'];

export function bytes(value) {
  const power = Math.min(Math.floor(Math.log2(Math.max(value, 1)) / 10), SIZES.length - 1);
  const scaled = value / 1024 ** power;
  return `${power === 0 || scaled >= 100 ? Math.round(scaled) : scaled.toFixed(1)} ${SIZES[power]}`;
}
