// The form of a condition: an exact model of the conditions that people build without JSON.
//
// A condition outside of the model has no form (null) and is edited as JSON: `$all`, `$alli`, `$elemMatch`, `$size`, `$type`, `$param`,
// `$not` around several operators, and values that are arrays or objects. The form keeps the order of members, so that an unchanged
// condition keeps its text.
import type { Json } from './json.js';
import { isObject } from './layout.js';

/** The paths and operators of conditions, as `parallax schema conditions` prints them. */
export interface Vocabulary {
  paths: VocabularyPath[];
  operators: VocabularyOperator[];
  conditionOperators: string[];
  /** `nesting`, `patternBytes` and `countWithin` (the times that a profile keeps). */
  limits: Record<string, number>;
}
export interface VocabularyPath {
  path: string;
  type: 'boolean' | 'number' | 'string' | 'any' | 'time' | 'history';
  /** The kind of name that follows the path, such as `trait`. */
  parameter?: string;
  /** The text after the name, such as `.count`. */
  suffix?: string;
  values?: string[];
  minimum?: number;
  maximum?: number;
  /** The form of a text, such as `date`. */
  format?: string;
}
export interface VocabularyOperator {
  name: string;
  operand:
    | 'value'
    | 'comparable'
    | 'array'
    | 'group'
    | 'boolean'
    | 'typeName'
    | 'pattern'
    | 'version'
    | 'duration'
    | 'count'
    | 'condition'
    | 'size'
    | 'operators';
  types: string[];
}

/** A test, an audience, or a group of them. */
export type Form = Group | Test | AudienceTest;

/** Items of which `all`, `any` or `none` hold. `not`: not all of them hold. */
export interface Group {
  kind: 'group';
  match: 'all' | 'any' | 'none' | 'not';
  items: Form[];
  /** Whether a group `all` is written as `$and`. Otherwise it is an object with a member for each item, unless two have the same name. */
  and?: true;
}
export interface AudienceTest {
  kind: 'audience';
  audience: string;
}

/** A value, and the checks that it must all pass, such as `$gte` and `$lt` of a range. */
export interface Test {
  kind: 'test';
  path: string;
  name?: string;
  suffix?: string;
  checks: Check[];
}
export interface Check {
  /** An operator, or `is`: the comparison with a literal, which converts types. */
  operator: string;
  operand: Scalar | Scalar[] | Count;
  /** True if the check must not hold. */
  not?: true;
}
export type Scalar = null | boolean | number | string;

/** A number of occurrences, with bounds by their operators: `{$gte: 3}` is at least three times. */
export interface Count {
  bounds: Record<string, Scalar>;
  /** The duration before the request, such as `7d`. Without it all occurrences count. */
  within?: string;
  /** Whether `within` is written before the bounds. */
  withinFirst?: true;
}

/** Depth of groups in each other. It is that of the program (`CONDITION_NESTING_MAX`). A deeper condition has no form. */
export const FORM_NESTING_MAX = 16;

/** The operators on lists that a form shows. */
const LIST_OPERATORS = ['$in', '$nin', '$ini', '$nini'];
export const BOUND_OPERATORS = ['$eq', '$ne', '$gt', '$gte', '$lt', '$lte'];
/** The operators of groups by their names in a form. */
const GROUPS = { all: '$and', any: '$or', none: '$nor', not: '$not' } as const;

const isScalar = (value: Json): value is Scalar => value === null || typeof value !== 'object';
export const isCount = (operand: Check['operand']): operand is Count => isObject(operand);

/** Returns the form of a condition, or null if the form would not give back exactly this condition. */
export function toForm(condition: Json, vocabulary: Vocabulary): Form | null {
  return itemOf(condition, vocabulary, 0);
}

function itemOf(condition: Json, vocabulary: Vocabulary, depth: number): Form | null {
  if (!isObject(condition)) return null;
  const items = membersOf(condition, vocabulary, depth);
  if (!items) return null;
  return items.length === 1 ? items[0]! : { kind: 'group', match: 'all', items };
}

function membersOf(condition: { [name: string]: Json }, vocabulary: Vocabulary, depth: number): Form[] | null {
  return allOrNull(Object.entries(condition), ([name, operand]) => memberItem(name, operand, vocabulary, depth));
}

function memberItem(name: string, operand: Json, vocabulary: Vocabulary, depth: number): Form | null {
  if (!name.startsWith('$')) return testOf(name, operand, vocabulary);
  if (!vocabulary.conditionOperators.includes(name)) return null;
  if (name === '$audience') return typeof operand === 'string' ? { kind: 'audience', audience: operand } : null;
  const match = (Object.keys(GROUPS) as Group['match'][]).find((key) => GROUPS[key] === name);
  if (!match || depth >= FORM_NESTING_MAX) return null;
  if (match === 'not') {
    const items = isObject(operand) ? membersOf(operand, vocabulary, depth + 1) : null;
    return items && { kind: 'group', match, items };
  }
  const items = Array.isArray(operand) ? allOrNull(operand, (item) => itemOf(item, vocabulary, depth + 1)) : null;
  return items && { kind: 'group', match, items, ...(match === 'all' && { and: true as const }) };
}

function testOf(text: string, operand: Json, vocabulary: Vocabulary): Test | null {
  const found = findPath(text, vocabulary);
  if (!found) return null;
  const { entry, name } = found;
  const checks = isObject(operand) ? checksOf(operand, entry.type, vocabulary) : literalCheck(operand, entry.type);
  if (!checks) return null;
  const { path, suffix } = entry;
  return { kind: 'test', path, ...(name !== undefined && { name }), ...(suffix !== undefined && { suffix }), checks };
}

/** Finds the entry of a path as it is written. A path with a suffix wins: `events.a.count` is the count of `a`. */
function findPath(text: string, { paths }: Vocabulary): { entry: VocabularyPath; name?: string } | undefined {
  const plain = paths.find(({ path, parameter }) => parameter === undefined && path === text);
  if (plain) return { entry: plain };
  const matches = paths.filter(({ path, parameter, suffix = '' }) => {
    return parameter !== undefined && text.length > path.length + suffix.length && text.startsWith(path) && text.endsWith(suffix);
  });
  const lengthOf = ({ path, suffix = '' }: VocabularyPath) => [suffix.length, path.length] as const;
  const [entry] = matches.sort((a, b) => lengthOf(b)[0] - lengthOf(a)[0] || lengthOf(b)[1] - lengthOf(a)[1]);
  return entry && { entry, name: text.slice(entry.path.length, text.length - (entry.suffix ?? '').length) };
}

function literalCheck(literal: Json, type: VocabularyPath['type']): Check[] | null {
  return isScalar(literal) && type !== 'history' ? [{ operator: 'is', operand: literal }] : null;
}

function checksOf(operators: { [name: string]: Json }, type: VocabularyPath['type'], vocabulary: Vocabulary): Check[] | null {
  const entries = Object.entries(operators);
  return entries.length === 0 ? null : allOrNull(entries, ([name, operand]) => checkOf(name, operand, type, vocabulary));
}

function checkOf(name: string, operand: Json, type: VocabularyPath['type'], vocabulary: Vocabulary): Check | null {
  const operator = vocabulary.operators.find((known) => known.name === name);
  if (!operator || !operator.types.includes(type)) return null;
  if (name === '$not') {
    const checks = isObject(operand) ? checksOf(operand, type, vocabulary) : literalCheck(operand, type);
    const [check, ...more] = checks ?? [];
    return check && !check.not && more.length === 0 ? { ...check, not: true } : null;
  }
  const formOperand = operandOf(operator, operand);
  return formOperand === undefined ? null : { operator: name, operand: formOperand };
}

/** Returns the operand as the form has it. Undefined if the form cannot show it. */
function operandOf({ name, operand: kind }: VocabularyOperator, operand: Json): Check['operand'] | undefined {
  switch (kind) {
    case 'value':
    case 'comparable':
    case 'version':
      return isScalar(operand) ? operand : undefined;
    case 'array':
      return LIST_OPERATORS.includes(name) && Array.isArray(operand) && operand.every(isScalar) ? operand : undefined;
    case 'boolean':
      return typeof operand === 'boolean' ? operand : undefined;
    case 'group':
    case 'pattern':
    case 'duration':
      return typeof operand === 'string' ? operand : undefined;
    case 'count':
      return countOf(operand);
    default:
      return undefined;
  }
}

function countOf(operand: Json): Count | undefined {
  if (!isObject(operand)) return undefined;
  const { within, ...bounds } = operand;
  const place = Object.keys(operand).indexOf('within');
  const isAtEnd = place <= 0 || place === Object.keys(bounds).length;
  const areBounds = Object.entries(bounds).every(([name, bound]) => BOUND_OPERATORS.includes(name) && isScalar(bound));
  if (!isAtEnd || !areBounds || (place >= 0 && typeof within !== 'string')) return undefined;
  const isFirst = place === 0 && Object.keys(bounds).length > 0;
  return {
    bounds: bounds as Record<string, Scalar>,
    ...(place >= 0 && { within: within as string }),
    ...(isFirst && { withinFirst: true as const }),
  };
}

function allOrNull<T, R>(items: T[], of: (item: T) => R | null): R[] | null {
  const results: R[] = [];
  for (const item of items) {
    const result = of(item);
    if (result === null) return null;
    results.push(result);
  }
  return results;
}

/** Returns the condition of a form. Items of a group with the same path are written as `$and`. */
export function fromForm(form: Form): Json {
  return form.kind === 'group' && form.match === 'all' && !form.and ? together(form.items) : together([form]);
}

/** Returns the condition that all items hold: one object, or `$and` if two have the same name. */
function together(items: Form[]): Json {
  const members = items.flatMap(writtenMembers);
  const isUnique = new Set(members.map(([name]) => name)).size === members.length;
  return isUnique ? Object.fromEntries(members) : { $and: members.map((member) => Object.fromEntries([member])) };
}

function writtenMembers(item: Form): [string, Json][] {
  if (item.kind === 'audience') return [['$audience', item.audience]];
  if (item.kind === 'test') return writtenTest(item);
  return [[GROUPS[item.match], item.match === 'not' ? together(item.items) : item.items.map(fromForm)]];
}

/** Returns the members of a test: one, or one for each check if an operator occurs twice or a literal has other checks beside it. */
function writtenTest(test: Test): [string, Json][] {
  const text = pathText(test);
  const checks = test.checks.map(writtenCheck);
  const names = new Set(checks.map(([name]) => name));
  if (checks.length > 1 && (names.size < checks.length || names.has('is'))) return checks.map((check) => [text, besidePath([check])]);
  return checks.length === 0 ? [] : [[text, besidePath(checks)]];
}

const besidePath = (checks: [string, Json][]): Json => (checks[0]![0] === 'is' ? checks[0]![1] : Object.fromEntries(checks));

function writtenCheck({ operator, operand, not }: Check): [string, Json] {
  const written = isCount(operand) ? writtenCount(operand) : operand;
  return not ? ['$not', besidePath([[operator, written]])] : [operator, written];
}

function writtenCount({ bounds, within, withinFirst }: Count): Json {
  if (within === undefined) return bounds;
  return withinFirst ? { within, ...bounds } : { ...bounds, within };
}

/** Returns the path of a test as it is written in a condition. */
export const pathText = ({ path, name = '', suffix = '' }: Pick<Test, 'path' | 'name' | 'suffix'>) => `${path}${name}${suffix}`;

/** Returns the entry of the path of a test, or undefined if the program reads the path in another way. */
export function entryOf(test: Test, vocabulary: Vocabulary): VocabularyPath | undefined {
  const found = findPath(pathText(test), vocabulary);
  return found && found.entry.path === test.path && found.name === test.name && found.entry.suffix === test.suffix
    ? found.entry
    : undefined;
}
