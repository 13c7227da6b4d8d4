// Conditions of forms, as the program compiles or refuses them.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Check, Form, Json, Scalar, VocabularyPath } from '../../src/core/index.js';
import { fromForm, problems } from '../../src/core/index.js';
import type { Dice } from './dice.js';
import { IS_LONG, SEED, diceOf } from './dice.js';
import { TEXTS, formOf, scalar, textsOf } from './forms.js';
import type { Report } from './program.js';
import { lint } from './program.js';
import { VOCABULARY } from './vocabulary.js';

/** A site with the conditions as rules, 64 to a page. */
function siteWith(conditions: Json[]): Record<string, Json> {
  const files: Record<string, Json> = {
    'site.json': {
      site: 'forms',
      trackingId: 'track_forms',
      name: 'Forms',
      goals: { order: { name: 'Order', event: 'Order Placed' } },
    },
    'audiences.json': { returning: { name: 'Returning', when: { 'visitor.isReturning': true } } },
    'groups.json': { nordics: ['NO', 'SE'] },
  };
  for (let page = 0; page * 64 < conditions.length; page++) {
    const rules = conditions.slice(page * 64, page * 64 + 64).map((when) => ({ when, variant: 'default' }));
    files[`routes/${page}.json`] = {
      path: `/${page}`,
      layout: { root: { props: {} }, zones: { main: { default: [], variants: {}, rules } } },
    };
  }
  return files;
}
/** Returns whether a report has an error in the condition with this index. */
const refuses = ({ errors }: Report, index: number) =>
  errors.some(
    ({ file, pointer }) =>
      file === `routes/${Math.floor(index / 64)}.json` && pointer.startsWith(`/layout/zones/main/rules/${index % 64}/`),
  );
const NAMES = { audiences: ['returning'], groups: ['nordics'], goals: ['order'] };

const PATTERNS = [
  ...String.raw`
    ^/blog/\d{4}/ @example\.com$ ^de\b [a-z]+ (a|b)*c a{2,3} \p{L}+ (?P<x>a) ( a{ [ * (?=a) \1 \q é (?<n>a) [^/]+ a] }
    [a-\d] \- (?i)abc \/ \u0041 \cA \0 $^ [b-a] a** a?? (?:a) \B \x41 [] [^] \p{Foo} [[:alpha:]] [a&&b] [a--b] [a~~b] \k<n>
    \b{start} \A\z \x{1F600} [\-a] []a] [^]a] [[:^digit:]x] [a-z&&[^b]] a{2 a{,2} (?:a a) | \# \< é{2} (?<n.x>a) [é-ü]
    (?s:.) [\d-z] (?<n>a)\k<n> \d [\w-] [\b] (?<é>a) (?<a>x)(?<a>y) [a[b]] \p{sc=Greek} \p{Script=Greek} \P{L} (?<$a>x)
    (?-i) \u{41} \t\n\v\f\r
  `
    .trim()
    .split(/\s+/),
  'x'.repeat(1025),
  '\\',
  '',
  '(?x)a b',
  'a\\ b',
];
const WRITTEN = [
  ...TEXTS,
  'mobile',
  'phone',
  '2026-13-45',
  '2026-12',
  '2026-03-01T09:00:00Z',
  '2026-03-01T09:00:00',
  '2026-02-30T09:00:00Z',
  '2026-03-01T09:00:00.5+01:00',
  '2026-03-01T25:00:00Z',
  '0000-01-01',
  '2024-02-29',
  '\ud800',
  '7d',
];

/** A form as people could build it: mostly with the right kinds of values. */
function builtForm(dice: Dice, depth: number): Form {
  if (depth > 0 && dice.chance(0.4)) {
    const items = Array.from({ length: dice.below(4) }, () => builtForm(dice, depth - 1));
    return { kind: 'group', match: dice.pick(['all', 'any', 'none', 'not'] as const), items };
  }
  if (dice.chance(0.1)) return { kind: 'audience', audience: dice.pick(['returning', 'returning', 'unknown', '']) };
  const entry = dice.pick(VOCABULARY.paths);
  const names = {
    page: [
      '/pricing',
      '/a/*',
      '*',
      'pricing',
      '/x/',
      '/a?b',
      '/%20',
      '/a*b',
      'https://x.y/z',
      '/é',
      '/e\u0301',
      '/',
      '/100%',
      '/a.count',
      '//',
      '/a//',
      '/\ud800',
    ],
    goal: ['order', 'x', 'order.count'],
  };
  const name =
    entry.parameter &&
    dice.pick(names[entry.parameter as 'page'] ?? ['a', 'Order Placed', 'a*', 'a*b', 'a.count', 'a.b', '', '$x', '__proto__']);
  const checks = Array.from({ length: 1 + dice.below(2) }, () => builtCheck(dice, entry));
  return { kind: 'test', path: entry.path, ...(name !== undefined && { name }), ...(entry.suffix && { suffix: entry.suffix }), checks };
}

function builtCheck(dice: Dice, entry: VocabularyPath): Check {
  const operators = VOCABULARY.operators.filter(
    ({ types, name }) => types.includes(entry.type) && !/^\$(all|alli|type|elemMatch|size|not)$/.test(name),
  );
  const { name, operand: kind } = entry.type !== 'history' && dice.chance(0.2) ? { name: 'is', operand: 'value' } : dice.pick(operators);
  const value = (): Scalar => {
    if (dice.chance(0.15)) return dice.pick<Scalar>([scalar(dice), NaN, Infinity, 25]);
    if (entry.type === 'number') return dice.pick([0, 1, 5, 9, 23]);
    if (entry.type === 'boolean') return dice.chance(0.5);
    return dice.pick(WRITTEN);
  };
  const operand = (): Check['operand'] => {
    switch (kind) {
      case 'array':
        return Array.from({ length: dice.below(4) }, value);
      case 'boolean':
        return dice.chance(0.9) ? dice.chance(0.5) : value();
      case 'pattern':
        return dice.pick(PATTERNS);
      case 'group':
        return dice.pick(['nordics', 'nordics', 'x']);
      case 'duration':
        return dice.pick(['7d', '24h', '07m', '0d', '7', '1.5h', '9007199254740991s', '99999999999d']);
      case 'count': {
        const bounds = Array.from({ length: dice.below(3) }, () => [
          dice.pick(['$eq', '$ne', '$gt', '$gte', '$lt', '$lte']),
          dice.pick<Scalar>([0, 1, 15, 16, 17, 1e6, -1, 1.5, '1']),
        ]);
        return {
          bounds: Object.fromEntries(bounds) as Record<string, Scalar>,
          ...(dice.chance(0.5) && { within: dice.pick(['7d', 'x']) }),
        };
      }
      default:
        return value();
    }
  };
  return { operator: name, operand: operand(), ...(dice.chance(0.15) && { not: true as const }) };
}

test('the program compiles each random form without problems', () => {
  const batches = IS_LONG ? 100 : 3;
  let [accepted, refused] = [0, 0];
  for (let batch = 0; batch < batches; batch++) {
    const forms = Array.from({ length: 2000 }, (_, index) => builtForm(diceOf(SEED + batch * 2000 + index), 2));
    const good = forms.filter((form) => problems(form, VOCABULARY, NAMES).length === 0);
    accepted += good.length;
    refused += forms.length - good.length;
    const { errors } = lint(siteWith(good.map(fromForm)));
    const found = errors
      .slice(0, 5)
      .map(({ file, pointer, title, expected, found: actual }) => `${file} ${pointer} ${title} ${expected} ${actual}`);
    assert.deepEqual(found, [], `SEED=${SEED}`);
  }
  assert.ok(accepted > batches * 200 && refused > batches * 200, `${accepted} accepted, ${refused} refused`);
});

test('the program has an error for each kind of value that it refuses, and the form has a problem', () => {
  const conditions: Json[] = [
    { 'now.hour': 24 },
    { 'now.hour': { $gte: 22, $lt: 6 } },
    { 'now.date': '01.12.2026' },
    { 'now.date': '2026-02-29' },
    { 'now.at': { $gte: '2026-03-01' } },
    { 'visitor.firstSeen': { $within: '0d' } },
    { 'events.a': { $count: {} } },
    { 'events.a': { $count: { $gte: 17, within: '7d' } } },
    { 'events.a': { $count: { $gte: 1.5 } } },
    { 'events.a*b.count': 1 },
    { 'pages.pricing.count': 1 },
    { 'url.path': { $regex: '(' } },
    { 'url.path': { $regex: 'a(?=b)' } },
    { $audience: 'unknown' },
    { country: { $inGroup: 'unknown' } },
    { 'goals.unknown.count': 1 },
    { 'traits.v': { $vgt: true } },
    { 'visitor.visits': { $gt: null } },
    { $and: [{ 'visitor.visits': 1 }, { 'visitor.visits': { $gt: 1 } }] },
  ];
  const report = lint(siteWith(conditions));
  for (const [index, condition] of conditions.entries()) {
    assert.ok(refuses(report, index), `the program accepts ${JSON.stringify(condition)}`);
    assert.ok(problems(formOf(condition), VOCABULARY, NAMES).length > 0, JSON.stringify(condition));
  }
});

test('patterns have a problem if the program refuses them', () => {
  const conditions = PATTERNS.map((pattern): Json => ({ 'url.path': { $regex: pattern } }));
  const report = lint(siteWith(conditions));
  const differing = PATTERNS.filter((_, index) => refuses(report, index) !== textsOf(conditions[index]!).length > 0);
  // The program accepts both, and nobody means them.
  assert.deepEqual(differing, ['a**', '[\\d-z]']);
  assert.ok(report.errorCount >= 20 && report.errorCount <= PATTERNS.length - 30);
});
