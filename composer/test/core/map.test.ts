import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { DefaultComponentProps, DefaultComponents, Data as PuckDataOf } from '@puckeditor/core';
import { createReducer } from '@puckeditor/core/internal';
import type { Data, Json, JsonObject, Layout, LayoutNode, PersonalizedZone, PuckNode, Zone } from '../../src/core/index.js';
import { LayoutError, NODE_NESTING_MAX, choose, chosenOf, fromPuck, toPuck, withoutDuplicateZones } from '../../src/core/index.js';
import type { Dice } from './dice.js';
import { IS_LONG, SEED, diceOf } from './dice.js';
import { filesOf, sites } from './sites.js';

type PuckData = PuckDataOf<DefaultComponents, DefaultComponentProps>;

/** Combinations of one page that are tried. */
const COMBINATIONS_MAX = 500;

/** The order of members counts too. */
function assertSame(actual: unknown, expected: unknown, message?: string) {
  assert.deepStrictEqual(actual, expected, message);
  assert.equal(JSON.stringify(actual), JSON.stringify(expected), message);
}
const copyOf = <T>(value: T): T => JSON.parse(JSON.stringify(value)) as T;
const layoutOf = (zones: Record<string, Zone>): Layout => ({ root: { props: {} }, zones });

/** Returns the keys of each personalized zone, in all variants. */
function keysOf(zones: Record<string, Zone>, keys: [string, string[]][] = []): [string, string[]][] {
  for (const [name, zone] of Object.entries(zones)) {
    if (!Array.isArray(zone)) keys.push([name, ['default', ...Object.keys(zone.variants)]]);
    for (const nodes of Array.isArray(zone) ? [zone] : [zone.default, ...Object.values(zone.variants)]) {
      for (const node of nodes) keysOf(node.zones ?? {}, keys);
    }
  }
  return keys;
}

function* combinations(keys: [string, string[]][]): Generator<Record<string, string>> {
  const product = keys.reduce((count, [, names]) => count * names.length, 1);
  for (let index = 0; index < Math.min(product, COMBINATIONS_MAX); index++) {
    let rest = index;
    yield Object.fromEntries(
      keys.map(([zone, names]) => {
        const key = names[rest % names.length]!;
        rest = Math.floor(rest / names.length);
        return [zone, key];
      }),
    );
  }
}

test('each page of the sites is the same after the editor, in each combination of its variants', () => {
  let pages = 0;
  let tried = 0;
  for (const [file, route] of sites().flatMap((site) => Object.entries(filesOf(site)))) {
    const layout = (route as JsonObject).layout as unknown as Layout | undefined;
    if (!file.startsWith('routes/') || !layout) continue;
    pages += 1;
    const before = copyOf(layout);
    for (const chosen of combinations(keysOf(layout.zones))) {
      tried += 1;
      assertSame(fromPuck(toPuck(layout, chosen)), before, `${file} ${JSON.stringify(chosen)}`);
      assertSame(fromPuck(choose(toPuck(layout), chosen)), before, `${file} ${JSON.stringify(chosen)}`);
      assertSame(fromPuck(copyOf(toPuck(layout, chosen))), before, file);
    }
    assertSame(layout, before, `${file} is not changed itself`);
  }
  assert.ok(pages >= 26 && tried >= 100, `${pages} pages, ${tried} combinations`);
});

test('the shown content of a zone is the slot, and the rest is hidden', () => {
  const zone: PersonalizedZone = {
    default: [{ id: 'a', type: 'Hero', props: { title: 'A' } }],
    variants: { b: [{ id: 'b', type: 'Hero', props: { title: 'B' } }] },
    rules: [{ audience: 'returning', variant: 'b' }],
  };
  const layout: Layout = {
    root: { props: { title: 'Home' } },
    zones: { hero: zone, main: [{ id: 'c', type: 'List', props: {}, zones: { left: [] }, query: { id: 'q' } }] },
  };
  const list = { type: 'List', props: { id: 'c', props: {}, zones: { left: [] }, $zones: ['left'], query: { id: 'q' } } };
  assertSame(toPuck(layout, { hero: 'b', other: 'x' }), {
    root: {
      props: {
        props: { title: 'Home' },
        zones: { hero: [{ type: 'Hero', props: { id: 'b', props: { title: 'B' } } }], main: [list] },
        $zones: ['hero', 'main'],
        $hidden: { hero: { chosen: 'b', zone: { ...zone, variants: { b: [] } } } },
      },
    },
    content: [],
  });
  assert.deepEqual(chosenOf(toPuck(layout, { hero: 'unknown' })), { hero: 'default' });
});

test('data is of the type of Puck', () => {
  const data: PuckData = toPuck(layoutOf({}));
  assertSame(fromPuck(data as Data), layoutOf({}));
});

test('slots that Puck adds are no zones, and filled ones are', () => {
  const layout = layoutOf({
    main: [
      { id: 'a', type: 'Columns', props: {} },
      { id: 'b', type: 'Columns', props: {}, zones: { left: [] } },
    ],
  });
  const data = toPuck(layout);
  for (const node of data.root.props!.zones!.main!) node.props.zones = { left: [], right: [], ...node.props.zones };
  data.root.props!.zones!.aside = [];
  assertSame(fromPuck(data), layout);
  data.root.props!.zones!.main![0]!.props.zones!.right!.push({ type: 'Text', props: { id: 'Text-1' } } as PuckNode);
  const right = [{ id: 'Text-1', type: 'Text', props: {} }];
  assertSame(fromPuck(data).zones.main, [
    { id: 'a', type: 'Columns', props: {}, zones: { right } },
    (layout.zones.main as LayoutNode[])[1],
  ]);
});

test('a personalized zone stays if its content is removed, also without its name in $zones', () => {
  const zone: PersonalizedZone = { default: [], variants: { v: [{ id: 'a', type: 'A', props: {} }] }, rules: [] };
  const data = toPuck(layoutOf({ main: zone }));
  delete data.root.props!.$zones;
  delete data.root.props!.zones;
  assertSame(fromPuck(data), layoutOf({ main: zone }));
});

test('unknown members and the order of members stay, also if a node gets more', () => {
  const node = { type: 'Text', note: { by: 'x' }, id: 'a', zones: null, query: null, props: { text: 'A' } } as unknown as LayoutNode;
  const bare = { id: 'b', type: 'Line' };
  const zone = { rules: [], since: 1, variants: { v: [bare] }, default: [node] } as unknown as PersonalizedZone;
  const layout = { zones: { main: zone }, $note: 'x', root: { lang: 'de', props: { title: 'T' } } } as unknown as Layout;
  for (const main of ['default', 'v']) assertSame(fromPuck(toPuck(layout, { main })), layout);
  const data = toPuck(layout, { main: 'v' });
  const shown = data.root.props!.zones!.main![0]!;
  shown.props.props = { text: 'new' };
  shown.props.query = { id: 'q' };
  assertSame((fromPuck(data).zones.main as PersonalizedZone).variants.v, [{ ...bare, props: { text: 'new' }, query: { id: 'q' } }]);
});

test('cleared fields leave no member, and other values are refused with their place', () => {
  const data = toPuck(layoutOf({ main: [{ id: 'a', type: 'Text', props: {} }] }));
  const node = data.root.props!.zones!.main![0]!;
  node.props.props = { text: undefined, list: [undefined, { a: undefined }] } as unknown as JsonObject;
  assertSame(fromPuck(data).zones.main, [{ id: 'a', type: 'Text', props: { list: [null, {}] } }]);
  for (const wrong of [() => 1, NaN, new Date(), { $$typeof: Symbol('element') }]) {
    node.props.props = { 'a/b': wrong } as unknown as JsonObject;
    const place = '/root/props/zones/main/0/props/props/a~1b';
    assert.throws(
      () => fromPuck(data),
      (error: LayoutError) => error instanceof LayoutError && error.pointer === place,
    );
  }
});

test('layouts and data of another form are refused with their place', () => {
  const node = (members: object) => ({ root: {}, zones: { main: [{ id: 'a', type: 'A', ...members }] } });
  const zone = (members: object) => ({ root: {}, zones: { main: { default: [], variants: {}, rules: [], ...members } } });
  const cases: [unknown, string][] = [
    [null, ''],
    [[], ''],
    [{ zones: {} }, '/root'],
    [{ root: { props: [] }, zones: {} }, '/root/props'],
    [{ root: {} }, '/zones'],
    [{ root: {}, zones: { main: 'x' } }, '/zones/main'],
    [{ root: {}, zones: { main: [1] } }, '/zones/main/0'],
    [node({ id: 1 }), '/zones/main/0/id'],
    [node({ type: null }), '/zones/main/0/type'],
    [node({ props: null }), '/zones/main/0/props'],
    [node({ zones: [] }), '/zones/main/0/zones'],
    [zone({ default: {} }), '/zones/main/default'],
    [zone({ variants: [] }), '/zones/main/variants'],
    [zone({ variants: { 'a/b': null } }), '/zones/main/variants/a~1b'],
    [zone({ rules: [1] }), '/zones/main/rules'],
  ];
  for (const [layout, pointer] of cases) {
    const isAt = (error: LayoutError) => error instanceof LayoutError && error.pointer === pointer;
    assert.throws(() => toPuck(layout as Layout), isAt, JSON.stringify(layout));
  }
  const text: PuckNode = { type: 'Text', props: { id: 'x' } };
  assert.throws(() => fromPuck({ ...toPuck(layoutOf({})), content: [text] }), LayoutError);
  assert.throws(() => fromPuck({ ...toPuck(layoutOf({})), zones: { 'root:main': [text] } }), LayoutError);
  assert.throws(() => fromPuck({ root: { props: { zones: { main: [null] } } }, content: [] } as unknown as Data), LayoutError);
});

test('nodes nest up to the limit', () => {
  const nested = (depth: number): LayoutNode[] =>
    depth === 0 ? [] : [{ id: `n${depth}`, type: 'A', props: {}, zones: { in: nested(depth - 1) } }];
  for (const depth of [NODE_NESTING_MAX - 1, NODE_NESTING_MAX]) {
    assertSame(fromPuck(toPuck(layoutOf({ main: nested(depth) }))), layoutOf({ main: nested(depth) }));
  }
  assert.throws(() => toPuck(layoutOf({ main: nested(NODE_NESTING_MAX + 1) })), LayoutError);
  assert.throws(() => toPuck(layoutOf({ main: nested(5000) })), LayoutError);
  const data = toPuck(layoutOf({ main: nested(NODE_NESTING_MAX) }));
  const deeper: PuckNode = { type: 'A', props: { id: 'top', zones: { in: data.root.props!.zones!.main! } } };
  assert.throws(() => fromPuck({ root: { props: { zones: { main: [deeper] } } }, content: [] }), LayoutError);
  const deep = (depth: number): Json => (depth === 0 ? 1 : [deep(depth - 1)]);
  const withProp = (depth: number) => toPuck(layoutOf({ main: [{ id: 'a', type: 'A', props: { x: deep(depth) } }] }));
  for (const depth of [126, 127]) fromPuck(withProp(depth));
  assert.throws(() => fromPuck(withProp(128)), LayoutError);
});

// Random layouts.

const NAMES = [
  'main',
  'hero',
  '__proto__',
  'constructor',
  '$hidden',
  '$zones',
  'zones',
  'props',
  'toString',
  'hasOwnProperty',
  '7',
  'x',
  'chosen',
];
const MEMBERS = ['title', '__proto__', 'constructor', 'zones', '$hidden', '1', 'id', 'a.b'];

function* serials() {
  for (let serial = 1; ; serial++) yield serial;
}

function randomLayout(dice: Dice): Layout {
  const serial = serials();
  const used = new Set<string>();
  const value = (): Json => dice.pick<Json>([1, 'text', null, true, [], {}, [{ a: 1 }], { $hidden: 1 }]);
  const shuffled = <T>(items: T[]) =>
    dice.chance(0.7)
      ? items
      : items
          .map((item) => [dice.below(1000), item] as const)
          .sort((a, b) => a[0] - b[0])
          .map(([, item]) => item);
  const some = (names: string[], max: number) => [...new Set(Array.from({ length: dice.below(max + 1) }, () => dice.pick(names)))];
  const nodes = (depth: number): LayoutNode[] => Array.from({ length: dice.below(3) }, () => node(depth));
  const node = (depth: number): LayoutNode => {
    const number = serial.next().value!;
    const props = [...some(MEMBERS, 2).map((name) => [name, value()]), ['serial', number]];
    const members: [string, unknown][] = [
      ['id', `n${number}`],
      ['type', dice.pick(['A', 'B'])],
      ['props', Object.fromEntries(props)],
    ];
    if (depth > 0 && dice.chance(0.7)) members.push(['zones', zones(depth - 1)]);
    if (dice.chance(0.2)) members.push(['query', value()]);
    if (dice.chance(0.1)) members.push([dice.pick(['note', 'constructor', '__proto__']), value()]);
    return Object.fromEntries(shuffled(members)) as unknown as LayoutNode;
  };
  const zone = (name: string, depth: number): Zone => {
    if (used.has(name) || dice.chance(0.4)) return nodes(depth);
    used.add(name);
    const variants = some(['__proto__', 'constructor', 'b', '1', 'zone'], 3).map((key) => [key, nodes(depth)]);
    const members: [string, unknown][] = [
      ['default', nodes(depth)],
      ['variants', Object.fromEntries(variants)],
      ['rules', [{ when: { 'now.hour': 1 }, variant: 'b' }]],
    ];
    return Object.fromEntries(shuffled(members)) as unknown as Zone;
  };
  const zones = (depth: number) => Object.fromEntries(some(NAMES, 3).map((name) => [name, zone(name, depth)]));
  const members: [string, unknown][] = [
    ['root', dice.chance(0.8) ? { props: { title: 'x' } } : { lang: 'x' }],
    ['zones', zones(3)],
  ];
  return Object.fromEntries(shuffled(members)) as unknown as Layout;
}

/** A naive model: the layout itself, and the shown contents. Edits find a node by its serial number. */
class Model {
  chosen = new Map<string, string>();
  constructor(readonly layout: Layout) {
    this.choose({});
  }
  choose(wanted: Record<string, string>) {
    const before = this.chosen;
    this.chosen = new Map();
    this.visit((name, zone) => {
      const wish = Object.keys(wanted).includes(name) ? wanted[name]! : (before.get(name) ?? 'default');
      this.chosen.set(name, ['default', ...Object.keys(zone.variants)].includes(wish) ? wish : 'default');
    });
  }
  /** The shown nodes and the list of each. */
  shown(): [LayoutNode[], LayoutNode][] {
    const found: [LayoutNode[], LayoutNode][] = [];
    this.visit(undefined, (nodes) => nodes.forEach((node) => found.push([nodes, node])));
    return found;
  }
  private visit(
    onZone?: (name: string, zone: PersonalizedZone) => void,
    onNodes?: (nodes: LayoutNode[]) => void,
    zones = this.layout.zones,
  ) {
    for (const [name, zone] of Object.entries(zones)) {
      if (!Array.isArray(zone)) onZone?.(name, zone);
      const key = this.chosen.get(name)!;
      const nodes = Array.isArray(zone) ? zone : key === 'default' ? zone.default : zone.variants[key]!;
      onNodes?.(nodes);
      for (const node of [...nodes]) this.visit(onZone, onNodes, node.zones ?? {});
    }
  }
}

/** The shown components of Puck, and the list of each. */
function shownIn(zones: Record<string, PuckNode[]> | undefined, found: [PuckNode[], PuckNode][] = []): [PuckNode[], PuckNode][] {
  for (const nodes of Object.values(zones ?? {})) {
    for (const node of [...nodes]) {
      found.push([nodes, node]);
      shownIn(node.props.zones, found);
    }
  }
  return found;
}

test('random layouts are the same after random edits and choices as in a naive model', () => {
  console.log(`SEED=${SEED}`);
  const rounds = IS_LONG ? 20_000 : 600;
  let [edits, choices] = [0, 0];
  for (let round = 0; round < rounds; round++) {
    const dice = diceOf(SEED + round);
    const layout = randomLayout(dice);
    const message = `SEED=${SEED + round}`;
    for (const chosen of [...combinations(keysOf(layout.zones))].slice(0, 12))
      assertSame(fromPuck(toPuck(layout, chosen)), layout, message);
    const model = new Model(copyOf(layout));
    let data = toPuck(layout);
    for (let step = 0; step < 12; step++) {
      const serialOf = (node: { props?: JsonObject }) => (node.props as JsonObject).serial;
      const shown = shownIn(data.root.props!.zones);
      const keys = keysOf(model.layout.zones);
      if (dice.chance(0.5) && keys.length > 0) {
        const some = keys.filter(() => dice.chance(0.5)).map(([zone, names]) => [zone, dice.pick([...names, 'unknown'])]);
        const wanted = Object.fromEntries(some) as Record<string, string>;
        data = choose(data, wanted);
        model.choose(wanted);
        choices += 1;
      } else if (shown.length > 0) {
        data = copyOf(data);
        const [list, node] = dice.pick(shownIn(data.root.props!.zones));
        const [modelList, modelNode] = model.shown().find(([, other]) => serialOf(other) === serialOf(node.props))!;
        if (dice.chance(0.3) && list.length > 1) {
          list.push(...list.splice(list.indexOf(node), 1));
          modelList.push(...modelList.splice(modelList.indexOf(modelNode), 1));
        } else if (dice.chance(0.2) && !node.props.zones) {
          list.splice(list.indexOf(node), 1);
          modelList.splice(modelList.indexOf(modelNode), 1);
        } else {
          node.props.props!.edited = step;
          modelNode.props!.edited = step;
        }
        edits += 1;
      }
      assertSame(fromPuck(data), model.layout, message);
      assert.deepStrictEqual(chosenOf(data), Object.fromEntries(model.chosen), message);
    }
  }
  assert.ok(edits > rounds && choices > rounds, `${edits} edits, ${choices} choices`);
});

// The reducer of Puck.

const SLOTS = Object.fromEntries(
  ['left', 'right', 'hero', 'main', 'next', 'zone', 'chosen', 'props', 'zones'].map((name) => [name, { type: 'slot' }]),
);
const FIELDS = {
  props: { type: 'object', objectFields: { text: { type: 'text' } } },
  zones: { type: 'object', objectFields: SLOTS },
  query: { type: 'object', objectFields: {} },
  $hidden: { type: 'object', objectFields: {} },
  $members: { type: 'object', objectFields: {} },
};
const CONFIG = { root: { fields: FIELDS }, components: { A: { fields: FIELDS }, B: { fields: FIELDS } } };

/** Puck with the data. Its actions are those of its buttons and of dragging. */
function puckWith(data: Data) {
  const reduce = createReducer({ appStore: { config: CONFIG } } as unknown as Parameters<typeof createReducer>[0]);
  const warn = console.warn;
  console.warn = () => {};
  let state = reduce({ data: { root: {}, content: [] }, ui: {}, indexes: { nodes: {}, zones: {} } } as never, {
    type: 'setData',
    data: data as never,
  });
  console.warn = warn;
  return {
    act: (action: object) => (state = reduce(state, action as never)),
    data: () => state.data as unknown as Data,
  };
}

const page = (): Layout =>
  layoutOf({
    hero: {
      default: [{ id: 'h', type: 'A', props: {} }],
      variants: {
        v: [
          {
            id: 'h',
            type: 'A',
            props: {},
            zones: { next: { default: [], variants: { n: [{ id: 'n', type: 'B', props: {} }] }, rules: [] } },
          },
        ],
      },
      rules: [{ audience: 'x', variant: 'v' }],
    },
    main: [
      {
        id: 'columns',
        type: 'A',
        props: { text: 'a', 'dotted.name': { 'a.b': 1 } },
        zones: {
          left: [{ id: 'l', type: 'B', props: {} }],
          zones: {
            default: [{ id: 'p', type: 'B', props: { text: 'default' } }],
            variants: { zone: [{ id: 'q', type: 'B', props: { text: 'zone' } }] },
            rules: [{ when: { 'now.hour': 1 }, variant: 'zone' }],
          },
        },
      },
    ],
  });

test('the walk of Puck through the data changes nothing', () => {
  for (const chosen of combinations(keysOf(page().zones))) assertSame(fromPuck(puckWith(toPuck(page(), chosen)).data()), page());
});

test('a copy of Puck keeps the shown content in plain zones, and the original its variants', () => {
  const puck = puckWith(toPuck(page(), { zones: 'zone' }));
  puck.act({ type: 'duplicate', sourceIndex: 0, sourceZone: 'root:zones.main' });
  const copied = withoutDuplicateZones(puck.data());
  const [original, copy] = fromPuck(copied).zones.main as LayoutNode[];
  assertSame(original, (page().zones.main as LayoutNode[])[0]);
  assert.match(copy!.id, /^A-/);
  const shown = copy!.zones!.zones as LayoutNode[];
  assert.deepEqual(
    shown.map(({ type, props }) => [type, props]),
    [['B', { text: 'zone' }]],
  );
  assert.equal(withoutDuplicateZones(copied), copied);
});

test('a copy whose zones have the name of a zone in a hidden variant becomes plain', () => {
  const data = toPuck(page());
  const next = { default: [{ id: 'm', type: 'B', props: {} }], variants: {}, rules: [] };
  data.root.props!.zones!.main!.unshift(
    toPuck(layoutOf({ x: [{ id: 'k', type: 'A', props: {}, zones: { next } }] })).root.props!.zones!.x![0]!,
  );
  const { hero, main } = fromPuck(withoutDuplicateZones(data)).zones;
  assertSame(hero, page().zones.hero);
  assert.deepEqual((main as LayoutNode[])[0]!.zones, { next: next.default });
});

test('a personalized zone moves and goes with its node', () => {
  const puck = puckWith(toPuck(page(), { hero: 'v', zones: 'zone' }));
  puck.act({ type: 'move', sourceIndex: 0, sourceZone: 'root:zones.main', destinationIndex: 0, destinationZone: 'h:zones.next' });
  const moved = fromPuck(puck.data());
  const hero = (moved.zones.hero as PersonalizedZone).variants.v![0]!;
  assert.deepEqual(moved.zones.main, []);
  assertSame((hero.zones!.next as PersonalizedZone).default, page().zones.main);
  puck.act({ type: 'remove', index: 0, zone: 'root:zones.hero' });
  assert.deepEqual(fromPuck(puck.data()).zones.hero, { ...(page().zones.hero as PersonalizedZone), variants: { v: [] } });
});

test('after random actions of Puck no name of a personalized zone is there twice', () => {
  const rounds = IS_LONG ? 3000 : 100;
  let copies = 0;
  for (let round = 0; round < rounds; round++) {
    const dice = diceOf(SEED + round);
    const puck = puckWith(toPuck(page(), Object.fromEntries(keysOf(page().zones).map(([zone, names]) => [zone, dice.pick(names)]))));
    for (let step = 0; step < 6; step++) {
      const places: [string, number][] = [];
      const visit = (parent: string, zones: Record<string, PuckNode[]> | undefined) => {
        for (const [name, nodes] of Object.entries(zones ?? {})) {
          nodes.forEach((node, index) => {
            places.push([`${parent}:zones.${name}`, index]);
            visit(node.props.id, node.props.zones);
          });
        }
      };
      visit('root', puck.data().root.props!.zones);
      if (places.length === 0 || places.length > 60) break;
      const [zone, index] = dice.pick(places);
      if (dice.chance(0.8)) puck.act({ type: 'duplicate', sourceIndex: index, sourceZone: zone });
      else puck.act({ type: 'remove', index, zone });
      copies += 1;
      const data = withoutDuplicateZones(puck.data());
      const names = keysOf(fromPuck(data).zones).map(([name]) => name);
      assert.equal(new Set(names).size, names.length, `SEED=${SEED + round}: ${names.join(' ')}`);
      const shownText = (from: Data) =>
        JSON.stringify(shownIn(from.root.props!.zones).map(([, node]) => [node.props.id, node.props.props]));
      assert.equal(shownText(data), shownText(puck.data()));
      const warn = console.warn;
      console.warn = () => {};
      puck.act({ type: 'setData', data });
      console.warn = warn;
    }
  }
  assert.ok(copies > rounds);
});
