// A condition as an English sentence.
import type { Check, Count, Form, Group, Scalar, Test, Vocabulary } from './conditions.js';
import { entryOf, isCount, pathText } from './conditions.js';

/** Values of a list in a sentence. More are counted: nobody reads a longer sentence. */
const VALUES_IN_WORDS_MAX = 8;

/** The nouns of the paths without a name. The other paths are their own noun. */
const NOUNS: Record<string, string> = {
  'visitor.visits': 'visits',
  'visitor.pageViews': 'page views',
  'visitor.events': 'events',
  'visitor.firstSeen': 'first event',
  'visitor.lastSeen': 'last event',
  'visitor.userId': 'user ID',
  'device.type': 'device type',
  'device.os': 'operating system',
  'url.path': 'path of the page',
  'now.hour': 'hour',
  'now.weekday': 'weekday',
  'now.date': 'date',
  'now.at': 'time',
  'device.browser': 'browser',
};
const PLURALS = ['visitor.visits', 'visitor.pageViews', 'visitor.events'];
/** The adjectives of paths that are true or false. */
const ADJECTIVES: Record<string, string> = { 'visitor.isNew': 'new', 'visitor.isReturning': 'returning' };
const WEEKDAYS = ['Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday', 'Sunday'];
const UNITS: Record<string, string> = { s: 'second', m: 'minute', h: 'hour', d: 'day' };
const BOUNDS: Record<string, string> = {
  $eq: 'exactly',
  $ne: 'not exactly',
  $gt: 'more than',
  $gte: 'at least',
  $lt: 'fewer than',
  $lte: 'at most',
};
const VALUES: Record<string, string> = {
  is: '',
  $eq: '',
  $ne: 'not ',
  $gt: 'more than ',
  $gte: 'at least ',
  $lt: 'less than ',
  $lte: 'at most ',
};
const TIMES: Record<string, string> = { ...VALUES, $gt: 'after ', $gte: 'not before ', $lt: 'before ', $lte: 'not after ' };
const VERSIONS: Record<string, [string, string]> = {
  $veq: ['version ', ''],
  $vne: ['not version ', ''],
  $vgt: ['later than version ', ''],
  $vgte: ['version ', ' or later'],
  $vlt: ['earlier than version ', ''],
  $vlte: ['version ', ' or earlier'],
};

/** Returns the condition of a form as one English sentence, without a full stop. */
export function words(form: Form, vocabulary: Vocabulary): string {
  if (form.kind === 'audience') return `the visitor belongs to the audience ${quoted(form.audience)}`;
  return form.kind === 'test' ? testWords(form, vocabulary) : groupWords(form, vocabulary);
}

function groupWords({ match, items }: Group, vocabulary: Vocabulary): string {
  const isSingle = items.length === 1;
  const needsBrackets = (item: Form) =>
    !isSingle && item.kind === 'group' && (item.match === 'all' || item.match === 'any') && item.items.length > 1;
  const parts = items.map((item) => (needsBrackets(item) ? `(${words(item, vocabulary)})` : words(item, vocabulary)));
  if (match === 'all') return parts.length === 0 ? 'everyone' : sentence(parts, 'and');
  if (match === 'any') return parts.length === 0 ? 'everyone' : sentence(parts, 'or');
  if (parts.length === 0) return 'nobody';
  return `it is not so that ${isSingle ? parts[0] : `(${sentence(parts, match === 'none' ? 'or' : 'and')})`}`;
}

function sentence(parts: string[], word: string): string {
  const last = parts[parts.length - 1]!;
  return parts.length < 2 ? last : `${parts.slice(0, -1).join(', ')}, ${word} ${last}`;
}

function testWords(test: Test, vocabulary: Vocabulary): string {
  const adjective = ADJECTIVES[test.path];
  const predicates = test.checks.map((check) => {
    const { operator, operand, not } = check;
    if (isCount(operand)) return `${historyWords(test)} ${not ? 'not ' : ''}${countWords(operand)}`;
    if (adjective && (operator === 'is' || operator === '$eq') && typeof operand === 'boolean')
      return `is ${operand === Boolean(not) ? 'not ' : ''}${adjective}`;
    return `${not ? 'not so that it ' : ''}${predicate(test, check, vocabulary)}`;
  });
  const isOfVisitor = adjective !== undefined && predicates.every((text) => text.endsWith(adjective));
  const subject = isOfVisitor ? 'the visitor' : subjectWords(test);
  const isHistory = test.checks.some(({ operand }) => isCount(operand));
  return `${isHistory ? '' : `${subject} `}${predicates.length > 0 ? predicates.join(' and ') : 'is not tested'}`;
}

/** Returns the noun of the value of a test. */
export function subjectWords(test: Pick<Test, 'path' | 'name' | 'suffix'>): string {
  const { path, name, suffix } = test;
  const known = Object.hasOwn(NOUNS, path) ? NOUNS[path] : undefined;
  if (known) return known;
  if (name !== undefined) return namedWords(path, name, suffix ?? '');
  const [, touch, member] = /^(first|last)Touch\.(\w+)$/.exec(path) ?? [];
  return touch ? `${member} of the ${touch} touch` : pathText(test);
}

function namedWords(path: string, name: string, suffix: string): string {
  const isPage = path === 'pages.';
  const thing = { 'events.': `event ${quoted(name)}`, 'pages.': `view of ${name}`, 'goals.': `conversion of the goal ${quoted(name)}` }[
    path
  ];
  if (thing && suffix === '.count') return isPage ? `number of views of ${name}` : `number of times of the ${thing}`;
  if (thing && suffix) return `${suffix.slice(1)} ${thing}`;
  if (thing) return thing;
  return { 'traits.': `trait ${quoted(name)}`, 'url.query.': `URL parameter ${quoted(name)}` }[path] ?? `${path}${name}${suffix}`;
}

function historyWords({ path, name = '' }: Test): string {
  if (path === 'pages.') return `page ${name} was viewed`;
  return path === 'goals.' ? `goal ${quoted(name)} was reached` : `event ${quoted(name)} happened`;
}

function countWords({ bounds, within }: Count): string {
  const parts = Object.entries(bounds).map(
    ([operator, bound]) => `${BOUNDS[operator] ?? operator} ${bound} ${bound === 1 ? 'time' : 'times'}`,
  );
  const count = parts.length > 0 ? parts.join(' and ') : 'any number of times';
  return within === undefined ? count : `${count} within the last ${durationWords(within)}`;
}

function durationWords(duration: string): string {
  const [, count, unit] = /^(\d+)([smhd])$/.exec(duration) ?? [];
  return unit === undefined ? quoted(duration) : `${count} ${UNITS[unit]}${Number(count) === 1 ? '' : 's'}`;
}

function predicate(test: Test, { operator, operand }: Check, vocabulary: Vocabulary): string {
  const isPlural = PLURALS.includes(test.path);
  const verb = isPlural ? 'are' : 'is';
  const entry = entryOf(test, vocabulary);
  const value = (scalar: Scalar) => valueWords(scalar, test.path);
  if (Array.isArray(operand)) {
    const isNegated = operator === '$nin' || operator === '$nini';
    const anyCase = operator === '$ini' || operator === '$nini' ? ', in upper or lower case' : '';
    return `${verb} ${isNegated ? 'not ' : ''}${listWords(operand.map(value))}${anyCase}`;
  }
  if (isCount(operand)) return countWords(operand);
  const text = value(operand);
  switch (operator) {
    case '$exists':
      return `${verb} ${operand === true ? 'known' : 'not known'}`;
    case '$regex':
    case '$regexi':
    case '$notRegex':
    case '$notRegexi': {
      const matches = operator.startsWith('$not') ? (isPlural ? 'do not match' : 'does not match') : isPlural ? 'match' : 'matches';
      return `${matches} the pattern ${quoted(String(operand))}${operator.endsWith('i') ? ', in upper or lower case' : ''}`;
    }
    case '$inGroup':
      return `${verb} in the group ${quoted(String(operand))}`;
    case '$notInGroup':
      return `${verb} not in the group ${quoted(String(operand))}`;
    case '$within':
      return `${verb} within the last ${durationWords(String(operand))}`;
  }
  const version = Object.hasOwn(VERSIONS, operator) ? VERSIONS[operator] : undefined;
  if (version) return `${verb} ${version[0]}${text}${version[1]}`;
  const isTime = entry?.type === 'time' || test.path === 'now.date';
  const comparisons = isTime ? TIMES : VALUES;
  return `${verb} ${Object.hasOwn(comparisons, operator) ? comparisons[operator] : `${operator} `}${text}`;
}

function listWords(values: string[]): string {
  if (values.length === 0) return 'one of no values';
  const more = values.length - VALUES_IN_WORDS_MAX;
  const shown = more > 0 ? [...values.slice(0, VALUES_IN_WORDS_MAX), `one of ${more} more`] : values;
  return shown.length === 1 ? shown[0]! : `${shown.slice(0, -1).join(', ')} or ${shown[shown.length - 1]}`;
}

function valueWords(value: Scalar, path: string): string {
  if (path === 'now.weekday' && typeof value === 'number') return WEEKDAYS[value - 1] ?? String(value);
  if (typeof value !== 'string') return String(value);
  return /^[\p{L}\p{N}/][\p{L}\p{N}\p{M}/.:+_-]*$/u.test(value) ? value : quoted(value);
}

const quoted = (text: string) => JSON.stringify(text);
