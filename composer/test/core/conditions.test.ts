// The form of a condition: exact or none, with the same meaning, its problems and its words.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import type { Check, Form, Json, JsonObject, Scalar, Test, VocabularyPath } from '../../src/core/index.js';
import { FORM_NESTING_MAX, fromForm, isCount, pathText, problems, toForm, words } from '../../src/core/index.js';
import type { Dice } from './dice.js';
import { IS_LONG, SEED, diceOf } from './dice.js';
import { exactForm, formOf, scalar, sentence, TEXTS, textsOf } from './forms.js';
import { printedVocabulary } from './program.js';
import { filesOf, growthbookCases, sites } from './sites.js';
import { ANY_PATH, VOCABULARY } from './vocabulary.js';

const isObject = (value: unknown): value is JsonObject => typeof value === 'object' && value !== null && !Array.isArray(value);

/** The operators and paths that keep a condition out of the form. */
const OUTSIDE = /\$(all|alli|elemMatch|size|type|param)"/;

/** Returns the examples of docs/conditions.md: the blocks, and those in tables. */
function documented(): Json[] {
  const text = readFileSync(path.join(process.env.PARALLAX_COMPOSER!, '../docs/conditions.md'), 'utf8');
  const blocks = [...text.matchAll(/```json\n([\s\S]*?)```/g)].map(([, block]) => block!);
  const examples = [...text.matchAll(/`(\{".*\})` \|$/gm)].map(([, example]) => example!);
  return [...blocks, ...examples].map((example) => JSON.parse(example) as Json);
}

/** Returns the conditions of a site: those of its audiences and of its rules. */
function conditionsOf(value: Json | undefined, found: Json[] = []): Json[] {
  if (isObject(value) && isObject(value.when)) found.push(value.when);
  if (value !== null && typeof value === 'object') Object.values(value).forEach((member) => conditionsOf(member, found));
  return found;
}

test('each documented example has an exact form, except for the listed operators', () => {
  const examples = documented();
  const forms = examples.map((example) => exactForm(example));
  for (const [index, example] of examples.entries()) {
    assert.equal(forms[index] === null, OUTSIDE.test(JSON.stringify(example)), JSON.stringify(example));
    if (forms[index]) assert.deepEqual(problems(forms[index], VOCABULARY), [], JSON.stringify(example));
  }
  const exact = forms.filter(Boolean).length;
  console.log(`${exact} of ${examples.length} documented examples`);
  assert.ok(exact >= DOCUMENTED_EXACT);
});

/** The number must not fall. */
const DOCUMENTED_EXACT = 83;

test('each condition of the sites has an exact form without problems', () => {
  const conditions = sites().flatMap((site) => conditionsOf(filesOf(site) as Json));
  const exact = conditions.filter((condition) => exactForm(condition));
  console.log(`${exact.length} of ${conditions.length} conditions of the sites`);
  assert.equal(exact.length, conditions.length);
  assert.ok(exact.length >= 31);
  for (const condition of exact) assert.deepEqual(textsOf(condition), []);
});

test('the conditions of GrowthBook have an exact form, or none', () => {
  const cases = growthbookCases()?.evalCondition;
  if (!cases) return;
  const conditions = cases.map(([, condition]) => condition!);
  const exact = conditions.filter((condition) => exactForm(condition, ANY_PATH));
  console.log(`${exact.length} of ${conditions.length} conditions of GrowthBook`);
  assert.equal(conditions.length, 259);
  assert.ok(exact.length >= GROWTHBOOK_EXACT);
});
/** The number must not fall. */
const GROWTHBOOK_EXACT = 200;

test('the vocabulary of the program gives the same forms', () => {
  const printed = printedVocabulary();
  if (!printed) return console.log('skipped: this program has no `schema conditions`');
  for (const example of documented()) {
    if (!JSON.stringify(example).includes('goals.')) assert.deepEqual(toForm(example, printed), toForm(example, VOCABULARY));
  }
});

test('a form has groups, tests, audiences, ranges and counts', () => {
  const condition: Json = {
    $audience: 'returning',
    'visitor.visits': { $gte: 3, $lt: 9 },
    $or: [{ 'events.Order Placed.count': 0 }, { 'pages./a': { $count: { within: '7d', $gte: 2 } }, country: { $not: { $in: ['NO'] } } }],
  };
  assert.deepEqual(formOf(condition), {
    kind: 'group',
    match: 'all',
    items: [
      { kind: 'audience', audience: 'returning' },
      {
        kind: 'test',
        path: 'visitor.visits',
        checks: [
          { operator: '$gte', operand: 3 },
          { operator: '$lt', operand: 9 },
        ],
      },
      {
        kind: 'group',
        match: 'any',
        items: [
          { kind: 'test', path: 'events.', name: 'Order Placed', suffix: '.count', checks: [{ operator: 'is', operand: 0 }] },
          {
            kind: 'group',
            match: 'all',
            items: [
              {
                kind: 'test',
                path: 'pages.',
                name: '/a',
                checks: [{ operator: '$count', operand: { bounds: { $gte: 2 }, within: '7d', withinFirst: true } }],
              },
              { kind: 'test', path: 'country', checks: [{ operator: '$in', operand: ['NO'], not: true }] },
            ],
          },
        ],
      },
    ],
  });
});

test('items with the same name are written together', () => {
  const country = (value: string): Form => ({ kind: 'test', path: 'country', checks: [{ operator: 'is', operand: value }] });
  const group = (match: 'all' | 'any' | 'not', ...items: Form[]): Form => ({ kind: 'group', match, items });
  const both = { $and: [{ country: 'NO' }, { country: 'SE' }] };
  assert.deepEqual(fromForm(group('all', country('NO'), country('SE'))), both);
  assert.deepEqual(fromForm(group('not', country('NO'), country('SE'))), { $not: both });
  assert.deepEqual(fromForm(group('any', country('NO'), group('all', country('NO'), country('SE')))), { $or: [{ country: 'NO' }, both] });
  const checks: Check[] = [
    { operator: 'is', operand: 'NO' },
    { operator: '$exists', operand: true },
  ];
  assert.deepEqual(fromForm({ kind: 'test', path: 'country', checks }), { $and: [{ country: 'NO' }, { country: { $exists: true } }] });
  assert.deepEqual(fromForm(group('all')), {});
});

test('conditions outside of the form have none', () => {
  const nested = (depth: number): Json => (depth === 0 ? { country: 'NO' } : { $or: [nested(depth - 1)] });
  const outside: Json[] = [
    null,
    [],
    'x',
    { $or: {} },
    { $or: [1] },
    { $not: [] },
    { $audience: 1 },
    { $unknown: [] },
    { unknown: 1 },
    { __proto__x: 1 },
    JSON.parse('{"__proto__": 1}') as Json,
    { constructor: 'x' },
    { 'traits.': 1 },
    { 'events.': 0 },
    { country: {} },
    { country: ['NO'] },
    { country: { $in: 'NO' } },
    { country: { $in: [['NO']] } },
    { country: { $in: ['NO'], x: 1 } },
    { country: { name: 'NO' } },
    { country: { $not: { $ne: 'NO', $exists: true } } },
    { country: { $not: { $not: 'NO' } } },
    { country: { $within: '7d' } },
    { 'visitor.firstSeen': { $regex: 'x' } },
    { 'events.a': 1 },
    { 'events.a': { $not: 1 } },
    { 'events.a': { $count: 1 } },
    { 'events.a': { $count: { $gte: 1, within: '7d', $lt: 3 } } },
    { 'events.a': { $count: { $in: 1 } } },
    { 'events.a': { $count: { $gte: [] } } },
    { 'events.a': { $count: { $gte: 1, within: 7 } } },
    { country: { $exists: 1 } },
    { country: { $regex: 1 } },
    { country: { constructor: 1 } },
    nested(FORM_NESTING_MAX + 1),
    nested(5000),
  ];
  for (const [index, condition] of outside.entries()) assert.equal(toForm(condition, VOCABULARY), null, `case ${index}`);
  for (const depth of [FORM_NESTING_MAX - 1, FORM_NESTING_MAX]) assert.deepEqual(problems(formOf(nested(depth)), VOCABULARY), []);
});

// Random conditions.

/** A condition that has a form, or that has none with a small probability at each place. */
function randomCondition(dice: Dice, depth: number, strange: number): Json {
  const members: [string, Json][] = [];
  const count = dice.pick([0, 1, 1, 2, 3]);
  for (let index = 0; index < count; index++) {
    const kind = dice.below(depth > 0 ? 10 : 5);
    const nested = () => randomCondition(dice, depth - 1, strange);
    if (kind === 9) members.push([dice.pick(['$and', '$or', '$nor']), Array.from({ length: dice.below(4) }, nested)]);
    else if (kind === 8) members.push(['$not', nested()]);
    else if (kind === 7) members.push(['$audience', dice.pick(TEXTS)]);
    else members.push(randomTest(dice, strange));
    if (dice.chance(strange)) members.push([dice.pick(['$where', 'unknown', '__proto__', '$and']), scalar(dice)]);
  }
  return Object.fromEntries(members);
}

function randomTest(dice: Dice, strange: number): [string, Json] {
  const entry = dice.pick(VOCABULARY.paths);
  const name = entry.parameter ? dice.pick(['a', 'Order Placed', '/pricing', '__proto__', 'x.y', '*', '1']) : '';
  const text = `${entry.path}${name}${entry.suffix ?? ''}`;
  if (entry.type !== 'history' && dice.chance(0.3)) return [text, dice.chance(strange) ? [scalar(dice)] : scalar(dice)];
  const count = dice.chance(strange) ? 0 : 1 + dice.below(2);
  const operators = Array.from({ length: count }, () => randomOperator(dice, entry, strange));
  return [text, Object.fromEntries(operators)];
}

function randomOperator(dice: Dice, entry: VocabularyPath, strange: number): [string, Json] {
  const accepted = VOCABULARY.operators.filter(
    ({ name, types }) => types.includes(entry.type) && !/^\$(all|alli|type|elemMatch|size|not)$/.test(name),
  );
  const { name, operand } = dice.pick(dice.chance(strange) ? VOCABULARY.operators : accepted);
  if (dice.chance(0.15)) return ['$not', Object.fromEntries([[name, randomOperand(dice, operand, strange)]])];
  return [name, randomOperand(dice, operand, strange)];
}

function randomOperand(dice: Dice, kind: string, strange: number): Json {
  if (dice.chance(strange)) return dice.pick<Json>([scalar(dice), [], {}, { a: 1 }, { $eq: 1 }, [[1]]]);
  if (kind === 'array') return Array.from({ length: dice.below(4) }, () => scalar(dice));
  if (kind === 'boolean') return dice.chance(0.5);
  if (kind === 'group' || kind === 'pattern' || kind === 'duration') return dice.pick(TEXTS);
  if (kind !== 'count') return scalar(dice);
  const bounds = Array.from({ length: dice.below(3) }, (): [string, Json] => [
    dice.pick(['$eq', '$gte', '$lt', '$lte', '$gt', '$ne']),
    scalar(dice),
  ]);
  const within: [string, Json][] = dice.chance(0.5) ? [['within', dice.pick(['7d', 'x'])]] : [];
  return Object.fromEntries(dice.chance(0.5) ? [...within, ...bounds] : [...bounds, ...within]);
}

test('random conditions have an exact form or none, and none only outside of the model', () => {
  console.log(`SEED=${SEED}`);
  const rounds = IS_LONG ? 500_000 : 20_000;
  let [exact, none] = [0, 0];
  for (let round = 0; round < rounds; round++) {
    const dice = diceOf(SEED + round);
    const strange = dice.chance(0.5) ? 0 : 0.05;
    const condition = randomCondition(dice, 3, strange);
    const form = exactForm(condition, VOCABULARY, `SEED=${SEED + round}`);
    if (form) exact += 1;
    else none += 1;
    if (strange === 0) assert.ok(form, `SEED=${SEED + round} ${JSON.stringify(condition)}`);
    if (!form) continue;
    assert.ok(words(form, VOCABULARY).length > 0);
    for (const { at } of problems(form, VOCABULARY))
      assert.notEqual(
        at
          .split('/')
          .slice(1)
          .reduce<unknown>((value, part) => (value as never)[part], form),
        undefined,
        at,
      );
  }
  assert.ok(exact > rounds / 2 && none > rounds / 50, `${exact} exact, ${none} none`);
});

// The meaning of a form, in comparison with its condition.

type Document = Record<string, number | undefined>;

function holdsCheck(check: Check, value: number | undefined): boolean {
  const { operator, operand, not } = check;
  const number = value ?? 0;
  const results: Record<string, boolean> = {
    is: value === operand,
    $eq: value === operand,
    $gte: number >= (operand as number),
    $lt: number < (operand as number),
    $exists: (value !== undefined) === operand,
  };
  return results[operator]! !== Boolean(not);
}

function formHolds(form: Form, document: Document): boolean {
  if (form.kind === 'audience') return document[form.audience] === 1;
  if (form.kind === 'test') return form.checks.every((check) => holdsCheck(check, document[pathText(form)]));
  const results = form.items.map((item) => formHolds(item, document));
  if (form.match === 'all') return results.every(Boolean);
  if (form.match === 'not') return !results.every(Boolean);
  const any = results.length === 0 || results.some(Boolean);
  return form.match === 'any' ? any : !any;
}

function conditionHolds(condition: Json, document: Document): boolean {
  return Object.entries(condition as JsonObject).every(([name, operand]) => {
    const results = Array.isArray(operand) ? operand.map((item) => conditionHolds(item, document)) : [];
    const any = results.length === 0 || results.some(Boolean);
    if (name === '$and') return results.every(Boolean);
    if (name === '$or' || name === '$nor') return any === (name === '$or');
    if (name === '$not') return !conditionHolds(operand, document);
    if (name === '$audience') return document[operand as string] === 1;
    const value = document[name];
    const one = ([operator, other]: [string, Json]): boolean => {
      if (operator !== '$not') return holdsCheck({ operator, operand: other as Scalar }, value);
      return isObject(other) ? !Object.entries(other).every(one) : !holdsCheck({ operator: 'is', operand: other as Scalar }, value);
    };
    return isObject(operand) ? Object.entries(operand).every(one) : one(['is', operand]);
  });
}

function randomForm(dice: Dice, depth: number): Form {
  const kind = dice.below(depth > 0 ? 4 : 2);
  if (kind === 0 && dice.chance(0.3)) return { kind: 'audience', audience: 'x' };
  if (kind < 2) {
    const check = (): Check => ({
      operator: dice.pick(['is', '$eq', '$gte', '$lt', '$exists']),
      operand: dice.below(3),
      ...(dice.chance(0.3) && { not: true as const }),
    });
    const checks = Array.from({ length: 1 + dice.below(3) }, check).map((one) =>
      one.operator === '$exists' ? { ...one, operand: dice.chance(0.5) } : one,
    );
    return { kind: 'test', path: 'traits.', name: dice.pick(['a', 'b']), checks };
  }
  const match = dice.pick(['all', 'any', 'none', 'not'] as const);
  const items = Array.from({ length: dice.below(4) }, () => randomForm(dice, depth - 1));
  return { kind: 'group', match, items, ...(match === 'all' && dice.chance(0.3) && { and: true as const }) };
}

test('a random form and its condition hold for the same documents', () => {
  const rounds = IS_LONG ? 200_000 : 5000;
  let held = 0;
  for (let round = 0; round < rounds; round++) {
    const dice = diceOf(SEED + round);
    const form = randomForm(dice, 3);
    const condition = fromForm(form);
    const again = toForm(condition, VOCABULARY)!;
    assert.ok(again, JSON.stringify(condition));
    assert.deepEqual(fromForm(again), condition);
    for (let index = 0; index < 6; index++) {
      const document: Document = {
        'traits.a': dice.pick([undefined, 0, 1, 2]),
        'traits.b': dice.pick([undefined, 0, 1, 2]),
        x: dice.below(2),
      };
      const holds = formHolds(form, document);
      held += holds ? 1 : 0;
      assert.equal(conditionHolds(condition, document), holds, `SEED=${SEED + round} ${JSON.stringify(condition)}`);
    }
  }
  assert.ok(held > rounds && held < 5 * rounds, `${held} held`);
});

// Problems and words.

test('problems are said in words, at their place', () => {
  const cases: [Json, RegExp][] = [
    [{ country: { $in: [] } }, /^Country: the list is empty/],
    [{ 'visitor.visits': { $gte: 'three' } }, /^Visits: "three" is not a number/],
    [{ 'visitor.visits': { $gte: true } }, /a number or a text is needed/],
    [{ 'visitor.isNew': 'yes' }, /choose yes or no/],
    [{ 'now.hour': 24 }, /^Hour: 24 is not possible. The values are whole numbers from 0 to 23/],
    [{ 'now.hour': { $gt: 23 } }, /not possible/],
    [{ 'now.hour': { $in: [1.5] } }, /not possible/],
    [{ 'now.hour': { $gte: 22, $lt: 6 } }, /^Hour: no value can pass/],
    [{ 'now.date': '01.12.2026' }, /"01.12.2026" is not a date/],
    [{ 'now.date': '2026-02-29' }, /not a date/],
    [{ 'now.date': { $eq: '2026-02' } }, /not a date/],
    [{ 'now.at': { $gte: '2026-03-01T09:00:00' } }, /is not a time with a time zone/],
    [{ 'visitor.firstSeen': { $within: '0d' } }, /"0d" is not a duration/],
    [{ 'visitor.firstSeen': { $within: '7 days' } }, /not a duration/],
    [{ 'visitor.firstSeen': { $within: '99999999999999999d' } }, /too long/],
    [{ 'device.type': 'phone' }, /"phone" is none of desktop/],
    [{ 'events.a': { $count: {} } }, /the number of times is missing/],
    [{ 'events.a': { $count: { $gte: 1.5 } } }, /1.5 is not a whole number of times/],
    [{ 'events.a': { $count: { $gte: 2, $lt: 2 } } }, /no value can pass/],
    [{ 'events.a*b': { $count: { $gte: 1 } } }, /a \* can only be at the end/],
    [{ 'pages.pricing': { $count: { $gte: 1 } } }, /"pricing" is not the path of a page/],
    [{ 'pages./pricing/.count': 1 }, /not the path of a page/],
    [{ 'url.path': { $regex: '(' } }, /the pattern is not valid/],
    [{ 'url.path': { $regex: 'a(?=b)' } }, /looks ahead/],
    [{ 'url.path': { $regex: '(a)\\1' } }, /repeats a group/],
    [{ 'traits.x': '\ud800' }, /damaged character/],
    [{ 'traits.x': { $vgt: true } }, /a version such as 2.4.0/],
    [{ $audience: '' }, /No audience is chosen/],
    [{ country: { $inGroup: '' } }, /No group is chosen/],
    [{ $or: [] }, /The group is empty/],
    [{ $and: [{ 'visitor.visits': 1 }, { 'visitor.visits': { $gt: 1 } }] }, /^Visits: no value can pass/],
  ];
  for (const [condition, expected] of cases) {
    const texts = textsOf(condition);
    assert.equal(texts.length, 1, `${JSON.stringify(condition)}: ${texts.join(' | ')}`);
    assert.match(texts[0]!, expected);
  }
  // Comparisons that need not hold together exclude nothing.
  const apart: Json[] = [
    { 'now.hour': 5, $not: { 'now.hour': 7 } },
    { $or: [{ 'now.hour': 5 }, { 'now.hour': 7 }] },
    { $nor: [{ 'now.hour': 5 }, { 'now.hour': 7 }] },
    { 'now.hour': { $gt: 5, $not: { $gt: 7 } } },
    { $and: [{ 'visitor.visits': 1 }, { 'visitor.events': 2 }] },
    { 'now.hour': { $gte: 5, $in: [4, 6] } },
  ];
  for (const condition of apart) assert.deepEqual(textsOf(condition), []);
  const form = formOf({ $or: [{ country: 'NO' }, { 'visitor.visits': { $gt: 1, $lt: 'x' } }] });
  assert.deepEqual(
    problems(form, VOCABULARY).map(({ at }) => at),
    ['/items/1/checks/1'],
  );
});

test('names that the site does not have are problems', () => {
  const form = formOf({ $audience: 'a', country: { $inGroup: 'g' }, 'goals.p.count': 1 });
  assert.deepEqual(problems(form, VOCABULARY), []);
  assert.deepEqual(problems(form, VOCABULARY, { audiences: ['a'], groups: ['g'], goals: ['p'] }), []);
  const texts = problems(form, VOCABULARY, { audiences: ['constructor'], groups: [], goals: ['q'] }).map(({ text }) => text);
  assert.deepEqual(texts, [
    'The site has no audience "a".',
    'Country: The site has no group "g".',
    'Number of times of the conversion of the goal "p": The site has no goal "p".',
  ]);
});

test('limits have no problem at the limit and one above it', () => {
  const nested = (depth: number): Form =>
    depth === 0 ? formOf({ country: 'NO' }) : { kind: 'group', match: 'any', items: [nested(depth - 1)] };
  const count = (operator: string, bound: number, within?: string): Form =>
    formOf({ 'events.a': { $count: { [operator]: bound, ...(within && { within }) } } });
  const pattern = (length: number) => formOf({ 'url.path': { $regex: 'é'.repeat(length / 2) + 'a'.repeat(length % 2) } });
  const cases: [(number: number) => Form, number][] = [
    [nested, 16],
    [(bound) => count('$gte', bound, '7d'), 16],
    [(bound) => count('$lt', bound, '7d'), 16],
    [(bound) => count('$eq', bound, '7d'), 15],
    [(bound) => count('$lte', bound, '7d'), 15],
    [pattern, 1024],
  ];
  for (const [form, max] of cases)
    assert.deepEqual(
      [max - 1, max, max + 1].map((number) => problems(form(number), VOCABULARY).length),
      [0, 0, 1],
    );
  assert.deepEqual(problems(count('$gte', 1000), VOCABULARY), []);
  assert.equal(problems(nested(3000), VOCABULARY).length, 1);
});

test('a condition is said in one sentence', () => {
  const cases: [Json, string][] = [
    [{ country: { $in: ['NO', 'SE'] }, 'visitor.visits': { $gte: 3 } }, 'country is NO or SE, and visits are at least 3'],
    [{}, 'everyone'],
    [{ 'visitor.isNew': true }, 'the visitor is new'],
    [{ 'visitor.isReturning': { $not: true } }, 'the visitor is not returning'],
    [{ $audience: 'returning' }, 'the visitor belongs to the audience "returning"'],
    [{ 'traits.age': { $exists: true, $lt: 18 } }, 'trait "age" is known and is less than 18'],
    [{ 'now.date': { $gte: '2026-12-01', $lte: '2026-12-24' } }, 'date is not before 2026-12-01 and is not after 2026-12-24'],
    [{ 'now.weekday': { $in: [6, 7] } }, 'weekday is Saturday or Sunday'],
    [
      { 'events.Order Placed': { $count: { $lt: 1, within: '3d' } } },
      'event "Order Placed" happened fewer than 1 time within the last 3 days',
    ],
    [{ 'pages./pricing': { $count: { $gte: 3 } } }, 'page /pricing was viewed at least 3 times'],
    [{ 'events.a.last': { $within: '1h' } }, 'last event "a" is within the last 1 hour'],
    [
      { $or: [{ country: 'NO' }, { country: 'SE', locale: { $regexi: '^de' } }] },
      'country is NO, or (country is SE, and locale matches the pattern "^de", in upper or lower case)',
    ],
    [{ $nor: [{ country: 'NO' }, { country: 'SE' }] }, 'it is not so that (country is NO, or country is SE)'],
    [{ $not: { 'visitor.lastSeen': { $within: '60d' } } }, 'it is not so that last event is within the last 60 days'],
    [{ 'firstTouch.source': { $nin: ['a', 'b c'] } }, 'source of the first touch is not a or "b c"'],
    [{ 'traits.v': { $vgte: '2.4.0' } }, 'trait "v" is version 2.4.0 or later'],
    [{ country: { $in: [...'abcdefghij'] } }, 'country is a, b, c, d, e, f, g, h or one of 2 more'],
  ];
  for (const [condition, expected] of cases) assert.equal(sentence(condition), expected);
});

test('a test of a form names its count', () => {
  const { checks } = formOf({ 'events.a': { $count: { $gte: 1 } } }) as Test;
  assert.ok(isCount(checks[0]!.operand));
});
