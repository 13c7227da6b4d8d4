// The vocabulary of docs/conditions.md.
import type { Vocabulary, VocabularyOperator, VocabularyPath } from '../../src/core/index.js';

const VALUES = ['boolean', 'number', 'string', 'any'];
const TIMES = [...VALUES, 'time'];

const touch = (which: string): VocabularyPath[] =>
  ['source', 'medium', 'campaign', 'term', 'content', 'referrer', 'landing'].map((member) => ({
    path: `${which}.${member}`,
    type: 'string',
  }));
const history = (path: string, parameter: string): VocabularyPath[] => [
  { path, type: 'history', parameter },
  { path, type: 'number', parameter, suffix: '.count' },
  { path, type: 'time', parameter, suffix: '.first' },
  { path, type: 'time', parameter, suffix: '.last' },
];
const operators = (operand: VocabularyOperator['operand'], types: string[], names: string[]): VocabularyOperator[] =>
  names.map((name) => ({ name, operand, types }));

export const VOCABULARY: Vocabulary = {
  paths: [
    { path: 'visitor.isNew', type: 'boolean' },
    { path: 'visitor.isReturning', type: 'boolean' },
    { path: 'visitor.visits', type: 'number' },
    { path: 'visitor.pageViews', type: 'number' },
    { path: 'visitor.events', type: 'number' },
    { path: 'visitor.firstSeen', type: 'time' },
    { path: 'visitor.lastSeen', type: 'time' },
    { path: 'visitor.userId', type: 'string' },
    { path: 'traits.', type: 'any', parameter: 'trait' },
    ...history('events.', 'event'),
    ...history('pages.', 'page'),
    ...history('goals.', 'goal'),
    ...touch('firstTouch'),
    ...touch('lastTouch'),
    { path: 'device.type', type: 'string', values: ['desktop', 'mobile', 'tablet', 'bot', 'unknown'] },
    { path: 'device.os', type: 'string' },
    { path: 'device.browser', type: 'string' },
    { path: 'locale', type: 'string' },
    { path: 'language', type: 'string', format: 'language' },
    { path: 'country', type: 'string', format: 'country' },
    { path: 'url.path', type: 'string' },
    { path: 'url.query.', type: 'string', parameter: 'parameter' },
    { path: 'now.hour', type: 'number', minimum: 0, maximum: 23 },
    { path: 'now.weekday', type: 'number', minimum: 1, maximum: 7 },
    { path: 'now.date', type: 'string', format: 'date' },
    { path: 'now.at', type: 'time' },
  ],
  operators: [
    ...operators('value', TIMES, ['$eq', '$ne']),
    ...operators('comparable', TIMES, ['$gt', '$gte', '$lt', '$lte']),
    ...operators('array', TIMES, ['$in', '$nin']),
    ...operators('array', VALUES, ['$ini', '$nini', '$all', '$alli']),
    ...operators('boolean', TIMES, ['$exists']),
    ...operators('typeName', TIMES, ['$type']),
    ...operators('version', VALUES, ['$veq', '$vne', '$vgt', '$vgte', '$vlt', '$vlte']),
    ...operators('pattern', VALUES, ['$regex', '$regexi', '$notRegex', '$notRegexi']),
    ...operators('group', VALUES, ['$inGroup', '$notInGroup']),
    ...operators('duration', ['time'], ['$within']),
    ...operators('count', ['history'], ['$count']),
    ...operators('operators', [...TIMES, 'history'], ['$not']),
    ...operators('condition', VALUES, ['$elemMatch']),
    ...operators('size', VALUES, ['$size']),
  ],
  conditionOperators: ['$and', '$or', '$nor', '$not', '$audience'],
  limits: { nesting: 16, rulesOfZone: 64, patternBytes: 1024, countWithin: 16 },
};

/** The vocabulary of conditions over any document, as in GrowthBook. */
export const ANY_PATH: Vocabulary = { ...VOCABULARY, paths: [{ path: '', type: 'any', parameter: 'field' }] };
