import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ExperimentSettings, Json, JsonObject, SiteExperiment } from '../../src/core/index.js';
import {
  LayoutError,
  NODE_NESTING_MAX,
  UnknownExperimentError,
  UnknownZoneError,
  addExperiment,
  differences,
  experimentsOf,
  removeExperiment,
  setExperiment,
  standingOf,
  zonesOfSite,
} from '../../src/core/index.js';
import type { Dice } from './dice.js';
import { IS_LONG, SEED, diceOf } from './dice.js';
import { lint, standingsAgainst } from './program.js';
import { DEMO, filesOf } from './sites.js';

const demo = () => filesOf(DEMO);
const copyOf = <T>(value: T): T => JSON.parse(JSON.stringify(value)) as T;
const slowFront = (files = demo()) => experimentsOf(files).find(({ key }) => key === 'slow-front')!;
const withChange = (files: Record<string, Json>, key: string, settings: ExperimentSettings) => ({
  ...files,
  ...setExperiment(files, key, settings),
});
const textsOf = (before: SiteExperiment[], after: SiteExperiment[]) => differences(before, after).map(({ text }) => text);

/** Returns each experiment that the text of the files has, found without the structure of pages. */
function textualExperiments(value: Json, found: JsonObject[] = []): JsonObject[] {
  if (value === null || typeof value !== 'object') return found;
  const { experiment } = value as JsonObject;
  if (experiment && typeof experiment === 'object') found.push(experiment as JsonObject);
  Object.values(value).forEach((member) => textualExperiments(member, found));
  return found;
}

function valueAt(file: Json, pointer: string): Json {
  return pointer
    .split('/')
    .slice(1)
    .reduce((value, token) => (value as JsonObject)[token.replaceAll('~1', '/').replaceAll('~0', '~')]!, file);
}

test('the experiments of the demo have all their places', () => {
  const files = demo();
  const experiments = experimentsOf(files);
  const all = textualExperiments(files as Json);
  assert.equal(experiments.flatMap(({ places }) => places).length, all.length);
  assert.deepEqual(new Set(experiments.map(({ key }) => key)), new Set(all.map(({ key }) => key)));
  for (const { key, places, conflicts } of experiments) {
    assert.deepEqual(conflicts, []);
    for (const { file, pointer } of places) assert.equal((valueAt(files[file]!, pointer) as JsonObject).key, key);
  }
  const { settings, places } = slowFront();
  assert.deepEqual(
    places.slice(0, 2).map(({ file, path, zone }) => [file, path, zone]),
    [
      ['routes/index.json', '/', 'hero'],
      ['routes/index.json', '/', 'promo'],
    ],
  );
  assert.deepEqual([settings.goal, settings.weights, settings.coverage, settings.planned], ['Order Placed', [0.5, 0.5], 1, 20000]);
});

test('a change reaches all places, and metrics stay in one', () => {
  const files = demo();
  const before = copyOf(files);
  const { settings, places } = slowFront();
  assert.ok(places.length >= 2);
  const changed = setExperiment(files, 'slow-front', {
    ...settings,
    weights: [0.4, 0.6],
    window: '7d',
    segments: ['new'],
    holdout: 0.05,
  });
  assert.deepEqual(files, before);
  assert.deepEqual(Object.keys(changed), [...new Set(places.map(({ file }) => file))]);
  const [first, ...others] = places.map(({ file, pointer }) => JSON.stringify(valueAt(changed[file]!, pointer)));
  assert.equal(
    first,
    '{"key":"slow-front","variants":["default","slow"],"weights":[0.4,0.6],"coverage":1,"holdout":0.05,"goal":"Order Placed","value":"properties.revenue","guardrails":[{"goal":"Order Refunded","margin":0.1,"lowerIsBetter":true}],"planned":20000,"window":"7d","segments":["new"]}',
  );
  for (const other of others)
    assert.equal(other, '{"key":"slow-front","variants":["default","slow"],"weights":[0.4,0.6],"coverage":1,"holdout":0.05}');
  assert.equal(lint({ ...files, ...changed }).errorCount, 0);
});

test('the same settings change no file', () => {
  const files = demo();
  for (const { key, settings } of experimentsOf(files)) assert.deepEqual(setExperiment(files, key, settings), {});
});

test('no coverage is the coverage 1', () => {
  const rule = (members: JsonObject): Json => ({ experiment: { key: 'x', variants: ['default'], ...members } });
  const rules = [rule({}), rule({ coverage: 1 }), rule({ weights: null })];
  const files: Record<string, Json> = {
    'routes/a.json': { path: '/a', layout: { root: {}, zones: { a: { default: [], variants: {}, rules } } } },
  };
  assert.deepEqual(experimentsOf(files)[0]!.conflicts, []);
  assert.deepEqual(setExperiment(files, 'x', { variants: ['default'], coverage: 1 }), {});
  const text = JSON.stringify(setExperiment(files, 'x', { variants: ['default'], coverage: 0.5 }));
  assert.equal(text.match(/"coverage":0.5/g)!.length, 3);
});

test('a removed member is removed everywhere', () => {
  const { weights: _, goal: __, value: ___, guardrails: ____, ...settings } = slowFront().settings;
  const files = withChange(demo(), 'slow-front', settings);
  const text = JSON.stringify(textualExperiments(files as Json).filter(({ key }) => key === 'slow-front'));
  assert.doesNotMatch(text, /weights|goal|value|guardrails/);
  assert.equal(lint(files).errorCount, 0);
});

test('an experiment that no page has is an error', () => {
  for (const key of ['none', 'constructor', '__proto__'])
    assert.throws(() => setExperiment(demo(), key, { variants: [] }), UnknownExperimentError);
});

test('files of another form have no experiments, and deep pages are refused', () => {
  const wrong: Json[] = [
    null,
    [],
    { layout: null },
    { layout: { zones: [] } },
    { layout: { zones: { a: { rules: [null, { experiment: { key: 1 } }], variants: [] } } } },
  ];
  const files = Object.fromEntries(wrong.map((route, index) => [`routes/${index}.json`, route]));
  assert.deepEqual(experimentsOf({ ...files, 'tests/a.json': { layout: demo()['routes/index.json']! } }), []);
  const nested = (depth: number): Json => ({ in: depth === 0 ? [] : [{ zones: nested(depth - 1) }] });
  for (const depth of [NODE_NESTING_MAX - 1, NODE_NESTING_MAX]) experimentsOf({ 'routes/a.json': { layout: { zones: nested(depth) } } });
  assert.throws(() => experimentsOf({ 'routes/a.json': { layout: { zones: nested(NODE_NESTING_MAX + 1) } } }), LayoutError);
});

// Zones that get an experiment, and lose it.

const rulesOf = (file: Json, zone: string) => zonesOfSite({ 'routes/a.json': file }).find((other) => other.zone === zone)!.rules;

test('a new experiment is the last rule of its zone, and another zone gets the members that all have alike', () => {
  const files = demo();
  const place = { file: 'routes/index.json', zone: 'next-step' };
  const [zone] = zonesOfSite(files).filter((other) => other.file === place.file && other.zone === place.zone);
  const settings: ExperimentSettings = { variants: zone!.versions, coverage: 0.01, goal: 'purchase' };
  const first = { ...files, ...addExperiment(files, 'new-one', place, settings) };
  assert.deepEqual(rulesOf(first[place.file]!, place.zone), [...zone!.rules, { experiment: { key: 'new-one', ...settings } }]);
  assert.equal(lint(first).errorCount, 0);
  const { key, settings: slow } = slowFront();
  const shared = addExperiment(files, key, place, slow);
  assert.deepEqual(Object.keys(shared), [place.file]);
  assert.deepEqual(rulesOf(shared[place.file]!, place.zone).at(-1), {
    experiment: { key, variants: slow.variants, weights: slow.weights, coverage: 1 },
  });
  for (const missing of [{ file: 'routes/none.json', zone: 'hero' }, { ...place, zone: 'main' }])
    assert.throws(() => addExperiment(files, 'x', missing, settings), UnknownZoneError);
});

test('a removed experiment leaves its zones as they were without it', () => {
  const files = demo();
  const without = { ...files, ...removeExperiment(files, 'slow-front') };
  assert.deepEqual(
    experimentsOf(without).map(({ key }) => key),
    experimentsOf(files)
      .map(({ key }) => key)
      .filter((key) => key !== 'slow-front'),
  );
  assert.equal(lint(without).errorCount, 0);
  const added = { ...files, ...addExperiment(files, 'x', { file: 'routes/index.json', zone: 'next-step' }, { variants: ['default'] }) };
  assert.deepEqual({ ...added, ...removeExperiment(added, 'x') }, files);
  assert.throws(() => removeExperiment(files, 'none'), UnknownExperimentError);
});

test('the metrics of a removed place move to another place', () => {
  const files = demo();
  const { settings, places } = slowFront(files);
  const rest = slowFront({ ...files, ...removeExperiment(files, 'slow-front', places[0]) });
  assert.deepEqual(rest.settings, settings);
  assert.deepEqual(
    rest.places.map(({ zone }) => zone),
    places.slice(1).map(({ zone }) => zone),
  );
});

test('the state of an experiment is that of the program, at each edge', () => {
  const [from, to] = ['2026-12-01T09:00:00Z', '2026-12-20T10:00:00+01:00'];
  const all: Partial<ExperimentSettings>[] = [{}, { from }, { to }, { from, to }, { to, winner: 'a' }, { from, to, winner: 'default' }];
  const rules = all.map((members, index): Json => ({ experiment: { key: `k${index}`, variants: ['default', 'a'], ...(members as JsonObject) } }));
  const site = (some: Json[]): Record<string, Json> => ({
    'site.json': { site: 's', trackingId: 'track_s', name: 'S' },
    'routes/a.json': { path: '/', layout: { root: { props: {} }, zones: { a: { default: [], variants: { a: [] }, rules: some } } } },
  });
  const seen = new Set<string>();
  for (const edge of [from, to].map(Date.parse)) {
    for (const nowMs of [edge - 1000, edge, edge + 1000]) {
      const states = all.map((members, index) => [`k${index}`, standingOf({ variants: ['default', 'a'], ...members }, nowMs)] as const);
      states.forEach(([, state]) => seen.add(state));
      const expected = Object.fromEntries(states.map(([key, state]) => [key, state.replace(' ', '_')]));
      assert.deepEqual(standingsAgainst(site([]), site(rules), nowMs / 1000), expected);
    }
  }
  assert.deepEqual([...seen].sort(), ['decided', 'ended', 'not started', 'running']);
});

// Random experiments in several zones.

const ARMS = ['default', 'a', '__proto__', 'constructor', '1'];

function randomSettings(dice: Dice): ExperimentSettings {
  const variants = ARMS.filter((_, index) => index === 0 || dice.chance(0.5));
  const settings: [keyof ExperimentSettings, unknown][] = [['variants', variants]];
  const maybe = (member: keyof ExperimentSettings, value: unknown, share = 0.4) =>
    void (dice.chance(share) && settings.push([member, value]));
  const first = dice.below(100) / 100;
  maybe(
    'weights',
    variants
      .map((_, index) => (index === 0 ? first : (1 - first) / Math.max(1, variants.length - 1)))
      .map((weight) => (variants.length === 1 ? 1 : weight)),
    0.7,
  );
  maybe(
    'coverage',
    dice.pick([
      0,
      0.5,
      1,
      [
        { from: '2026-12-01T09:00:00Z', share: 0.1 },
        { from: '2026-12-03T09:00:00Z', share: 1 },
      ],
    ]),
  );
  maybe('from', '2026-11-01T09:00:00Z');
  const isEnded = dice.chance(0.3);
  if (isEnded) settings.push(['to', '2026-12-20T09:00:00Z']);
  if (isEnded) maybe('winner', dice.pick(variants));
  maybe('seed', dice.pick(['s', 'x y']));
  maybe('namespace', ['n', 0, dice.pick([0.5, 1])]);
  maybe('holdout', dice.pick([0, 0.05]));
  const hasGoal = dice.chance(0.6);
  if (hasGoal) settings.push(['goal', 'Order Placed']);
  const hasValue = hasGoal && dice.chance(0.5);
  if (hasValue) settings.push(['value', 'properties.revenue']);
  if (hasValue) maybe('currency', 'properties.currency');
  if (hasValue) maybe('cap', dice.pick(['p99', 'none', 100]));
  maybe('guardrails', [{ goal: 'Order Refunded', margin: dice.pick([0.1, 0.02]) }]);
  maybe('planned', dice.pick([100, 20000]));
  maybe('window', '14d');
  maybe('segments', dice.pick([['device'], ['country', 'new']]));
  return Object.fromEntries(settings) as unknown as ExperimentSettings;
}

/** A site with two experiments in several zones. Their settings differ, so the program refuses it. */
function randomSite(dice: Dice): Record<string, Json> {
  const node = (id: string, zones?: JsonObject): Json => ({ id, type: 'A', props: {}, ...(zones && { zones }) });
  const zone = (content: Json[]): Json => ({
    default: content,
    variants: Object.fromEntries(ARMS.slice(1).map((arm) => [arm, []])),
    rules: [
      { when: { 'now.hour': 1 }, variant: 'a' },
      ...['x', 'y']
        .filter(() => dice.chance(0.8))
        .map((key) => ({ experiment: { key, ...(copyOf(randomSettings(dice)) as unknown as JsonObject) } })),
    ],
  });
  const page = (path: string): Json => ({
    path,
    layout: { root: { props: {} }, zones: { 'a-b': zone([node('n', { inner: zone([]) })]), main: [node('m', { side: zone([]) })] } },
  });
  return { 'site.json': { site: 's', trackingId: 'track_s', name: 'S' }, 'routes/a.json': page('/a'), 'routes/b/b.json': page('/b') };
}

test('after random settings the program has no error, and all else stays', () => {
  console.log(`SEED=${SEED}`);
  const rounds = IS_LONG ? 3000 : 60;
  let conflicting = 0;
  for (let round = 0; round < rounds; round++) {
    const dice = diceOf(SEED + round);
    const before = randomSite(dice);
    let files = before;
    for (const { key, conflicts } of experimentsOf(before)) {
      conflicting += conflicts.length > 0 ? 1 : 0;
      const settings = randomSettings(dice);
      files = withChange(files, key, settings);
      const after = experimentsOf(files).find((experiment) => experiment.key === key)!;
      const withCoverage = (given: ExperimentSettings) => ({ coverage: 1, ...given });
      assert.deepEqual([withCoverage(after.settings), after.conflicts], [withCoverage(settings), []], `SEED=${SEED + round}`);
      assert.deepEqual(setExperiment(files, key, settings), {});
    }
    const bare = (site: Record<string, Json>) =>
      JSON.stringify(site, (name, value: Json) => (name === 'experiment' ? (value as JsonObject).key : value));
    assert.equal(bare(files), bare(before));
    if (round < (IS_LONG ? 300 : 20)) {
      const { errors } = lint(files);
      assert.deepEqual(errors, [], `SEED=${SEED + round}`);
    }
  }
  assert.ok(conflicting > rounds, `${conflicting} conflicts`);
  const conflict = randomSite(diceOf(1));
  assert.ok(
    lint(conflict).errors.some(({ title }) => title.startsWith('conflicting `weights`')),
    'the program refuses different weights',
  );
});

// Differences.

test('differences are said in words, with those that begin a phase', () => {
  const files = demo();
  const before = experimentsOf(files);
  const { settings } = slowFront();
  const change = (members: Partial<ExperimentSettings>) =>
    differences(before, experimentsOf(withChange(files, 'slow-front', { ...settings, ...members })));
  const phase = '. A new phase begins, and all visitors start again';
  const cases: [Partial<ExperimentSettings>, string[]][] = [
    [{}, []],
    [{ weights: undefined }, []],
    [{ coverage: undefined }, []],
    [{ seed: 'slow-front', holdout: 0 }, []],
    [{ weights: [0.333, 0.667] }, [`weights: default 50 %, slow 50 % → default 33.3 %, slow 66.7 %${phase}`]],
    [{ holdout: 0.05 }, [`holdout: 0 % → 5 %${phase}`]],
    [{ seed: 'x' }, [`seed: slow-front → x${phase}`]],
    [
      { variants: ['default'], weights: [1] },
      [`arms: default, slow → default${phase}`, `weights: default 50 %, slow 50 % → default 100 %${phase}`],
    ],
    [{ coverage: [{ from: '2026-12-01T09:00:00Z', share: 0.01 }] }, ['new visitors that take part: 100 % → 1 % from 2026-12-01T09:00:00Z']],
    [{ to: '2026-12-20T09:00:00Z', winner: 'slow' }, ['end: none → 2026-12-20T09:00:00Z', 'winner: none → slow']],
    [{ namespace: ['n', 0, 0.5] }, ['namespace: none → n from 0 % to 50 %']],
    [
      { guardrails: [{ goal: 'Order Refunded', margin: 0.02 }] },
      ['guardrails: Order Refunded (10 %, lower is better) → Order Refunded (2 %)'],
    ],
    [{ goal: undefined, segments: ['new', 'device'] }, ['goal: Order Placed → none', 'segments: none → new, device']],
  ];
  for (const [members, expected] of cases) {
    const found = change(members);
    assert.deepEqual(
      found.map(({ text }) => text),
      expected,
    );
    assert.deepEqual(
      found.map(({ beginsPhase }) => beginsPhase),
      expected.map((text) => text.endsWith(phase)),
    );
  }
});

test('new, removed and moved experiments are differences', () => {
  const rule = (key: string, when?: Json): Json => ({ experiment: { key, variants: ['default'] }, ...(when && { when }) });
  const page = (rules: Json[], other: Json[] = []): Record<string, Json> => ({
    'routes/a.json': {
      path: '/a',
      layout: { root: {}, zones: { hero: { default: [], variants: {}, rules }, main: { default: [], variants: {}, rules: other } } },
    },
  });
  const [both, moved] = [experimentsOf(page([rule('x'), rule('y')])), experimentsOf(page([rule('z')], [rule('x')]))];
  assert.deepEqual(
    differences(both, moved).map(({ key, text }) => [key, text]),
    [
      ['x', 'no longer in the zone hero of /a'],
      ['x', 'also in the zone main of /a'],
      ['y', 'the experiment is removed'],
      ['z', 'the experiment is new'],
    ],
  );
  const limited = experimentsOf(page([rule('x', { country: 'NO' })]));
  assert.deepEqual(textsOf(experimentsOf(page([rule('x')])), limited), ['another condition in the zone hero of /a']);
  assert.deepEqual(textsOf(limited, copyOf(limited)), []);
});
