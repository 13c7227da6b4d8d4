// The values of a form that the program would refuse, in words for people who do not write JSON.
import type { Json } from './json.js';
import type { Check, Count, Form, Scalar, Test, Vocabulary, VocabularyOperator, VocabularyPath } from './conditions.js';
import { BOUND_OPERATORS, FORM_NESTING_MAX, entryOf, fromForm, isCount, pathText } from './conditions.js';
import { subjectWords } from './condition-words.js';
import { patternFault } from './pattern.js';

/** A problem of the item or the check at `at`, a JSON pointer in the form. */
export interface Problem {
  at: string;
  text: string;
}

/** The names that the site has. Without a list, every name counts as known. */
export interface SiteNames {
  audiences?: string[];
  groups?: string[];
  /** The goals without `where`. */
  goals?: string[];
}

/** The limits of the program, for a vocabulary that does not name them. */
const LIMITS: Record<string, number> = { nesting: FORM_NESTING_MAX, patternBytes: 1024, countWithin: 16 };
const NESTING = ['$and', '$or', '$nor', '$not'];
const ORDERINGS = ['$gt', '$gte', '$lt', '$lte'];

interface Context {
  vocabulary: Vocabulary;
  names: SiteNames;
  problems: Problem[];
  comparisons: Comparison[];
  /** The number of conjunctions so far. */
  conjunctions: number;
}

/** A comparison of a value with a literal. All comparisons of a conjunction must hold together. */
interface Comparison {
  at: string;
  test: Test;
  entry: VocabularyPath;
  operator: string;
  literal: Scalar;
  conjunction: number;
  isCount: boolean;
}

/**
 * Returns the problems of a form. A form without problems compiles, except for a pattern whose automaton is too large and a condition
 * above 2 MiB, which only the program knows.
 */
export function problems(form: Form, vocabulary: Vocabulary, names: SiteNames = {}): Problem[] {
  const context: Context = { vocabulary, names, problems: [], comparisons: [], conjunctions: 0 };
  const max = limitOf(context, 'nesting');
  // A level of the condition has at most two of the form: a group, and the group of the members of an object.
  const isShallow = checkItem(form, '', 0, 2 * max + 2, context);
  if (!isShallow || nestingOf(fromForm(form)) > max)
    context.problems.push({ at: '', text: `Groups are nested too deep. At most ${max} can be in each other.` });
  checkWindows(context);
  return context.problems;
}

/** Returns the depth of the operators in each other that contain conditions. */
function nestingOf(condition: Json): number {
  if (condition === null || typeof condition !== 'object') return 0;
  const depths = Object.entries(condition).map(([name, value]) => nestingOf(value) + (NESTING.includes(name) ? 1 : 0));
  return depths.reduce((deepest, depth) => Math.max(deepest, depth), 0);
}

const limitOf = ({ vocabulary }: Context, name: string) => vocabulary.limits[name] ?? LIMITS[name]!;

/** Checks an item. Returns false if it has more than `levels` groups in each other, which are not checked. */
function checkItem(item: Form, at: string, conjunction: number, levels: number, context: Context): boolean {
  const add = (text: string) => void context.problems.push({ at, text });
  if (item.kind === 'audience') checkName('audience', item.audience, context.names.audiences, add);
  if (item.kind === 'test') checkTest(item, at, conjunction, context);
  if (item.kind !== 'group') return true;
  if (levels === 0) return false;
  if (item.items.length === 0 && item.match !== 'all') add('The group is empty. Add a test or remove the group.');
  if (item.match === 'not') conjunction = ++context.conjunctions;
  const areShallow = item.items.map((inner, index) => {
    const own = item.match === 'any' || item.match === 'none' ? ++context.conjunctions : conjunction;
    return checkItem(inner, `${at}/items/${index}`, own, levels - 1, context);
  });
  return areShallow.every(Boolean);
}

function checkName(kind: string, name: string, known: string[] | undefined, add: (text: string) => void): void {
  if (name === '') add(`No ${kind} is chosen.`);
  else if (known && !known.includes(name)) add(`The site has no ${kind} "${name}".`);
}

function checkTest(test: Test, at: string, conjunction: number, context: Context): void {
  const add = (text: string) => void context.problems.push({ at, text: `${capital(subjectWords(test))}: ${text}` });
  const entry = entryOf(test, context.vocabulary);
  if (!entry)
    return add(test.name === '' ? 'the name is missing.' : `${pathText(test)} is no value that can be tested. Choose another name.`);
  checkPathName(test, context, add);
  if (test.checks.length === 0) add('choose a comparison.');
  for (const [index, check] of test.checks.entries()) {
    const place = `${at}/checks/${index}`;
    const addCheck = (text: string) => void context.problems.push({ at: place, text: `${capital(subjectWords(test))}: ${text}` });
    if (checkCheck(check, entry, context, addCheck)) addComparisons(check, test, entry, place, conjunction, context);
  }
}

function checkPathName({ path, name }: Test, context: Context, add: (text: string) => void): void {
  if (name === undefined) return;
  if (!isWellFormed(name)) return add('the name has a damaged character.');
  if (path === 'goals.') return checkName('goal', name, context.names.goals, add);
  if (path !== 'events.' && path !== 'pages.') return;
  const before = name.endsWith('*') ? name.slice(0, -1) : name;
  if (before.includes('*')) return add('a * can only be at the end of the name.');
  if (path === 'pages.' && !isPagePath(before, name.endsWith('*'))) {
    add(`"${name}" is not the path of a page. Write it as /pricing: with / at the begin, and without host, %, ?, # and a / at the end.`);
  }
}

function isPagePath(path: string, isPrefix: boolean): boolean {
  if (path === '' && isPrefix) return true;
  const hasEnd = !isPrefix && path.endsWith('/');
  return path.startsWith('/') && !hasEnd && !/[?#]|:\/\/|%[0-9A-Fa-f]{2}/.test(path);
}

/** Checks the operand. Returns whether it is of the expected form. */
function checkCheck({ operator, operand }: Check, entry: VocabularyPath, context: Context, add: (text: string) => void): boolean {
  const before = context.problems.length;
  const { type } = entry;
  const known = context.vocabulary.operators.find(({ name }) => name === operator);
  if (operator === 'is' ? type === 'history' : !known?.types.includes(type)) {
    add(`the comparison ${operator} cannot be used here.`);
    return false;
  }
  const kind = operator === 'is' ? 'value' : known!.operand;
  if (kind === 'array') {
    if (!Array.isArray(operand)) add('a list is needed.');
    else if (operand.length === 0) add('the list is empty. Add a value.');
    else operand.forEach((value) => checkValue(value, operator, entry, add));
  } else if (kind === 'count') {
    if (isCount(operand)) checkCount(operand, context, add);
    else add('a number of times is needed.');
  } else if (Array.isArray(operand) || isCount(operand)) add('one value is needed, not a list.');
  else checkScalar(operand, kind, operator, entry, context, add);
  return context.problems.length === before;
}

function checkScalar(
  operand: Scalar,
  kind: VocabularyOperator['operand'],
  operator: string,
  entry: VocabularyPath,
  context: Context,
  add: (text: string) => void,
): void {
  switch (kind) {
    case 'value':
      return checkValue(operand, operator, entry, add);
    case 'comparable':
      return typeof operand === 'number' || typeof operand === 'string'
        ? checkValue(operand, operator, entry, add)
        : add('a number or a text is needed.');
    case 'boolean':
      return typeof operand === 'boolean' ? undefined : add('choose yes or no.');
    case 'group':
      return checkName('group', typeof operand === 'string' ? operand : '', context.names.groups, add);
    case 'pattern':
      return typeof operand === 'string' ? checkPattern(operand, limitOf(context, 'patternBytes'), add) : add('a pattern is needed.');
    case 'version':
      if (typeof operand === 'number' ? Number.isFinite(operand) : typeof operand === 'string' && operand !== '' && isWellFormed(operand))
        return;
      return add('a version such as 2.4.0 is needed.');
    case 'duration':
      return typeof operand === 'string' ? checkDuration(operand, add) : add('a duration is needed.');
    default:
      return add(`the comparison ${operator} cannot be edited in a form.`);
  }
}

/** Checks a value that is compared with that of the path. */
function checkValue(value: Scalar, operator: string, entry: VocabularyPath, add: (text: string) => void): void {
  const { type, values, minimum, maximum } = entry;
  if (value === null) return;
  if (typeof value === 'number' && !Number.isFinite(value)) return add('a number is needed.');
  if (typeof value === 'string' && !isWellFormed(value)) return add('the text has a damaged character.');
  if (type === 'time' && !isTime(value)) return add(`${shown(value)} is not a time with a time zone, such as 2026-03-01T09:00:00+01:00.`);
  if (type === 'number' && typeof value !== 'number') return add(`${shown(value)} is not a number.`);
  if (type === 'boolean' && typeof value !== 'boolean') return add('choose yes or no.');
  if (type === 'string' && typeof value !== 'string') return add(`${shown(value)} is not a text.`);
  const isOrdering = ORDERINGS.includes(operator);
  if (entry.path === 'now.date' && !isDate(String(value), isOrdering)) return add(`${shown(value)} is not a date such as 2026-12-01.`);
  if (typeof value === 'number' && minimum !== undefined && maximum !== undefined && !isInRange(value, operator, minimum, maximum)) {
    return add(`${value} is not possible. The values are whole numbers from ${minimum} to ${maximum}.`);
  }
  const ignoresCase = operator === '$ini' || operator === '$nini';
  const isListed = (text: string) => values!.some((known) => known === text || (ignoresCase && known.toLowerCase() === text.toLowerCase()));
  if (values && !isOrdering && typeof value === 'string' && !isListed(value)) add(`${shown(value)} is none of ${values.join(', ')}.`);
}

function isInRange(value: number, operator: string, minimum: number, maximum: number): boolean {
  if (ORDERINGS.includes(operator)) return integers(minimum, maximum).some((integer) => holds(operator, integer, value));
  return Number.isInteger(value) && value >= minimum && value <= maximum;
}

const integers = (minimum: number, maximum: number) => Array.from({ length: maximum - minimum + 1 }, (_, index) => minimum + index);

function checkCount({ bounds, within }: Count, context: Context, add: (text: string) => void): void {
  const entries = Object.entries(bounds);
  if (entries.length === 0) add('the number of times is missing.');
  if (within !== undefined) checkDuration(within, add);
  const kept = limitOf(context, 'countWithin');
  for (const [operator, bound] of entries) {
    if (!BOUND_OPERATORS.includes(operator)) add(`the comparison ${operator} cannot be used here.`);
    if (typeof bound !== 'number' || !Number.isSafeInteger(bound) || bound < 0) add(`${shown(bound)} is not a whole number of times.`);
    else if (within !== undefined) {
      const max = operator === '$gte' || operator === '$lt' ? kept : kept - 1;
      if (bound > max) add(`${bound} times are too many with a duration. At most ${max} can be counted.`);
    }
  }
}

function checkDuration(text: string, add: (text: string) => void): void {
  const [, digits, unit] = /^(\d+)([smhd])$/.exec(text) ?? [];
  const ms = Number(digits) * { s: 1e3, m: 6e4, h: 3.6e6, d: 8.64e7 }[unit as 's']!;
  if (unit === undefined || Number(digits) === 0)
    add(`${shown(text)} is not a duration. Write a whole number and s, m, h or d, such as 7d.`);
  else if (ms > Number.MAX_SAFE_INTEGER) add(`${shown(text)} is too long.`);
}

function checkPattern(pattern: string, bytesMax: number, add: (text: string) => void): void {
  if (!isWellFormed(pattern)) return add('the pattern has a damaged character.');
  if (new TextEncoder().encode(pattern).length > bytesMax) return add(`the pattern is too long. It can have ${bytesMax} bytes.`);
  const fault = patternFault(pattern);
  if (fault === 'unsupported') add('the pattern looks ahead or back, or repeats a group. That is not supported.');
  if (fault === 'syntax')
    add('the pattern is not valid. Brackets must be closed, and a \\ must be before each special character that is meant itself.');
}

/** Adds the comparisons of a check that can exclude others. */
function addComparisons(
  { operator, operand, not }: Check,
  test: Test,
  entry: VocabularyPath,
  at: string,
  conjunction: number,
  context: Context,
): void {
  if (not) conjunction = ++context.conjunctions;
  const add = (name: string, literal: Scalar, isCount: boolean) =>
    context.comparisons.push({ at, test, entry, operator: name, literal, conjunction, isCount });
  if (isCount(operand)) {
    conjunction = ++context.conjunctions;
    for (const [name, bound] of Object.entries(operand.bounds)) add(name, bound, true);
  } else if (Array.isArray(operand)) operand.forEach((literal) => add(operator, literal, false));
  else if (operator === 'is' || BOUND_OPERATORS.includes(operator)) add(operator, operand, false);
}

/** Adds a problem for each path whose comparisons of one conjunction no value can pass together. */
function checkWindows({ comparisons, problems: found }: Context): void {
  const windows = new Map<string, Comparison[]>();
  for (const comparison of comparisons) {
    const key = `${comparison.conjunction} ${pathText(comparison.test)}`;
    const window = windows.get(key);
    if (window) window.push(comparison);
    else windows.set(key, [comparison]);
  }
  for (const window of windows.values()) {
    const { at, test } = window[window.length - 1]!;
    if (isEmpty(window))
      found.push({
        at,
        text: `${capital(subjectWords(test))}: no value can pass all of these comparisons. For "one or the other", use a group "any".`,
      });
  }
}

function isEmpty(window: Comparison[]): boolean {
  const { entry, isCount: isOfCount } = window[0]!;
  const { minimum, maximum } = entry;
  if (isOfCount) return excludesAll(window, numberOf);
  if (minimum !== undefined && maximum !== undefined) return !integers(minimum, maximum).some((value) => passes(window, value));
  if (entry.path === 'now.date') return excludesAll(window, (literal) => (typeof literal === 'string' ? literal : undefined));
  return excludesAll(window, entry.type === 'time' ? timeMs : numberOf);
}

/** Returns whether an integer passes all comparisons. The lists of several `$in` count as one list, as in the program. */
function passes(window: Comparison[], value: number): boolean {
  const isList = ({ operator }: Comparison) => operator === '$in' || operator === '$ini';
  const test = ({ operator, literal }: Comparison) => typeof literal !== 'number' || holds(operator, value, literal);
  const listed = window.filter(isList);
  return window.filter((comparison) => !isList(comparison)).every(test) && (listed.length === 0 || listed.some(test));
}

function holds(operator: string, value: number, operand: number): boolean {
  switch (operator) {
    case '$gt':
      return value > operand;
    case '$gte':
      return value >= operand;
    case '$lt':
      return value < operand;
    case '$lte':
      return value <= operand;
    case '$ne':
    case '$nin':
    case '$nini':
      return value !== operand;
    default:
      return value === operand;
  }
}

/** Returns whether a lower bound is above an upper one. Literals without a value are no bounds. */
function excludesAll<T extends number | string>(window: Comparison[], valueOf: (literal: Scalar) => T | undefined): boolean {
  const bounds = (operators: string[], strict: string) =>
    window.flatMap(({ operator, literal }) => {
      const value = operators.includes(operator) ? valueOf(literal) : undefined;
      return value === undefined ? [] : [{ value, isStrict: operator === strict }];
    });
  const lower = bounds(['$gt', '$gte', '$eq', 'is'], '$gt');
  const upper = bounds(['$lt', '$lte', '$eq', 'is'], '$lt');
  return lower.some((low) => upper.some((high) => low.value > high.value || (low.value === high.value && (low.isStrict || high.isStrict))));
}

const numberOf = (literal: Scalar) => (typeof literal === 'number' ? literal : undefined);

/** Returns the milliseconds since 1970 of a time, or undefined. */
function timeMs(value: Scalar): number | undefined {
  if (typeof value !== 'string') return numberOf(value);
  const [, date, hour, minute, second, zoneHour = '0', zoneMinute = '0'] =
    /^(\d{4}-\d{2}-\d{2})T(\d{2}):(\d{2}):(\d{2})(?:\.\d{1,9})?(?:Z|[+-](\d{2}):(\d{2}))$/.exec(value) ?? [];
  const isPossible = date && isDate(date, false) && !date.startsWith('0000') && !date.startsWith('9999');
  const isClock = Number(hour) < 24 && Number(minute) < 60 && Number(second) < 60 && Number(zoneHour) < 24 && Number(zoneMinute) < 60;
  return isPossible && isClock ? Date.parse(value) : undefined;
}

const isTime = (value: Scalar) => timeMs(value) !== undefined;

/** Returns whether the text is a date of the calendar. The first part of a date has an order with dates. */
function isDate(text: string, allowsPart: boolean): boolean {
  const [, year, month = '01', day = '01'] = /^(\d{4})(?:-(\d{2})(?:-(\d{2}))?)?$/.exec(text) ?? [];
  if (year === undefined || (text.length < 10 && !allowsPart)) return false;
  const isLeap = Number(year) % 4 === 0 && (Number(year) % 100 !== 0 || Number(year) % 400 === 0);
  const days = [31, isLeap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][Number(month) - 1];
  return days !== undefined && Number(day) >= 1 && Number(day) <= days;
}

/** Returns whether the text has no half of a surrogate pair, which is not valid in a file. */
const isWellFormed = (text: string) => !/\p{Cs}/u.test(text);
const capital = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);
const shown = (value: Scalar) => JSON.stringify(value);
