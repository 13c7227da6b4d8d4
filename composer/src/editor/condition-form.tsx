// A condition as a form: groups of tests, in the paths and operators of the program.
import type { ReactNode } from 'react';
import { problems } from '../core/condition-problems.js';
import { type Check, type Count, type Form, type Group, type Scalar, type Test, type Vocabulary, type VocabularyPath, isCount } from '../core/conditions.js';
import { SpanFields, TimeField, isTime, operatorsOf, spanOf, timeFromNow } from './time-field.js';

/** An audience to choose. */
interface Choice {
  key: string;
  name: string;
}

interface FormProps<T extends Form> {
  form: T;
  vocabulary: Vocabulary;
  audiences: Choice[];
  isReadOnly: boolean;
  onChange(form: Form): void;
}

const MATCHES: [Group['match'], string][] = [['all', 'all of these'], ['any', 'at least one of these'], ['none', 'none of these'], ['not', 'not all of these']];
/** The operators of a form, in words. Those of the program that are not here are edited as JSON. */
const OPERATORS: Record<string, string> = {
  is: 'is', $eq: 'is exactly', $ne: 'is not', $gt: 'is more than', $gte: 'is at least', $lt: 'is less than', $lte: 'is at most',
  $in: 'is one of', $nin: 'is none of', $ini: 'is one of, in any case', $nini: 'is none of, in any case', $exists: 'is known', $within: 'was in the last',
  $regex: 'matches the pattern', $regexi: 'matches the pattern, in any case', $notRegex: 'does not match the pattern', $notRegexi: 'does not match the pattern, in any case',
  $veq: 'is the version', $vne: 'is not the version', $vgt: 'is a later version than', $vgte: 'is at least the version', $vlt: 'is an earlier version than', $vlte: 'is at most the version',
  $inGroup: 'is in the group', $notInGroup: 'is not in the group', $count: 'happened',
};
/** The operators that compare with a value of the type of the path. */
const COMPARISONS = ['is', '$eq', '$ne', '$gt', '$gte', '$lt', '$lte'];
/** The path of the present time. */
const NOW = 'now.at';
const LISTS = ['$in', '$nin', '$ini', '$nini'];
const BOUNDS: [string, string][] = [['$gte', 'at least'], ['$lte', 'at most'], ['$eq', 'exactly'], ['$gt', 'more than'], ['$lt', 'fewer than'], ['$ne', 'not exactly']];

/** The name of a path in the list of paths. */
const keyOf = ({ path, suffix }: { path: string; suffix?: string }) => `${path}${suffix ? `…${suffix}` : ''}`;

/** Returns the check that a test of this path begins with. */
function firstCheck({ path, type, values, minimum }: VocabularyPath): Check {
  if (path === NOW) return { operator: '$gte', operand: timeFromNow() };
  switch (type) {
    case 'history':
      return { operator: '$count', operand: { bounds: { $gte: 1 } } };
    case 'boolean':
      return { operator: 'is', operand: true };
    case 'number':
      return { operator: '$gte', operand: minimum ?? 1 };
    case 'time':
      return { operator: '$within', operand: '7d' };
    default:
      return { operator: 'is', operand: values?.[0] ?? '' };
  }
}

const firstTest = (entry: VocabularyPath): Test => ({ kind: 'test', path: entry.path, ...(entry.parameter && { name: '' }), ...(entry.suffix && { suffix: entry.suffix }), checks: [firstCheck(entry)] });

/** Returns the value of a text for a path. A path of any type keeps the type of the value before. */
function scalarOf(text: string, type: string, before: unknown): Scalar {
  const isNumber = type === 'number' || (type === 'any' && typeof before === 'number');
  return isNumber && text.trim() !== '' && !Number.isNaN(Number(text)) ? Number(text) : text;
}

/** The form of a condition, and what the program would refuse in it. */
export function ConditionForm({ form, ...props }: FormProps<Form>): ReactNode {
  const names = { audiences: props.audiences.map(({ key }) => key) };
  const found = problems(form, props.vocabulary, names);
  // A single test is a group of one, so that another one can join it.
  const group: Form = form.kind === 'group' ? form : { kind: 'group', match: 'all', items: [form] };
  return (
    <div className="px-wide">
      <Item form={group} {...props} />
      {found.map(({ at, text }) => <p key={`${at} ${text}`} className="px-fault">{text}</p>)}
    </div>
  );
}

function Item({ form, ...props }: FormProps<Form>): ReactNode {
  if (form.kind === 'group') return <GroupForm form={form} {...props} />;
  if (form.kind === 'test') return <TestForm form={form} {...props} />;
  const { audiences, isReadOnly, onChange } = props;
  return (
    <label className="px-field">
      <span>belongs to the audience</span>
      <select disabled={isReadOnly} value={form.audience} onChange={(event) => onChange({ kind: 'audience', audience: event.currentTarget.value })}>
        {!audiences.some(({ key }) => key === form.audience) && <option value={form.audience}>{form.audience}</option>}
        {audiences.map(({ key, name }) => <option key={key} value={key}>{name}</option>)}
      </select>
    </label>
  );
}

function GroupForm({ form, ...props }: FormProps<Group>): ReactNode {
  const { vocabulary, audiences, isReadOnly, onChange } = props;
  const { items } = form;
  const changed = (next: Form[], match = form.match) => onChange({ kind: 'group', match, items: next, ...(match === 'all' && form.and && { and: true as const }) });
  return (
    <fieldset className="px-zone">
      <label className="px-field">
        <span>The visitor fits</span>
        <select disabled={isReadOnly} value={form.match} onChange={(event) => changed(items, event.currentTarget.value as Group['match'])}>
          {MATCHES.map(([match, text]) => <option key={match} value={match}>{text}</option>)}
        </select>
      </label>
      {items.map((item, at) => (
        <div key={at} className="px-rule">
          <Item {...props} form={item} onChange={(next) => changed(items.map((old, index) => (index === at ? next : old)))} />
          {!isReadOnly && <button type="button" aria-label={`Remove test ${at + 1}`} onClick={() => changed(items.filter((_, index) => index !== at))}>Remove</button>}
        </div>
      ))}
      {!isReadOnly && (
        <div className="px-row">
          <button type="button" onClick={() => changed([...items, firstTest(vocabulary.paths[0]!)])}>Add a test</button>
          {audiences[0] && <button type="button" onClick={() => changed([...items, { kind: 'audience', audience: audiences[0]!.key }])}>Add an audience</button>}
          <button type="button" onClick={() => changed([...items, { kind: 'group', match: 'any', items: [] }])}>Add a group</button>
        </div>
      )}
    </fieldset>
  );
}

function TestForm({ form, vocabulary, isReadOnly, onChange }: FormProps<Test>): ReactNode {
  const entry = vocabulary.paths.find(({ path, suffix }) => path === form.path && suffix === form.suffix);
  if (!entry) return <p className="px-fault">The program does not know “{form.path}”.</p>;
  const choose = (key: string) => onChange(firstTest(vocabulary.paths.find((path) => keyOf(path) === key)!));
  const span = form.path === NOW && !form.checks.some(({ not }) => not) ? spanOf(Object.fromEntries(form.checks.map(({ operator, operand }) => [operator, operand]))) : null;
  const withCheck = (at: number, check: Check) => onChange({ ...form, checks: form.checks.map((old, index) => (index === at ? check : old)) });
  return (
    <div className="px-row">
      <label className="px-field">
        <span>What</span>
        <select disabled={isReadOnly} value={keyOf(form)} onChange={(event) => choose(event.currentTarget.value)}>
          {vocabulary.paths.map((path) => <option key={keyOf(path)} value={keyOf(path)}>{keyOf(path)}</option>)}
        </select>
      </label>
      {entry.parameter && (
        <label className="px-field">
          <span>Name of the {entry.parameter}</span>
          <input readOnly={isReadOnly} value={form.name ?? ''} onChange={(event) => onChange({ ...form, name: event.currentTarget.value })} />
        </label>
      )}
      {span && <SpanFields {...{ span, isReadOnly }} onChange={(next) => onChange({ ...form, checks: Object.entries(operatorsOf(next)).map(([operator, operand]) => ({ operator, operand })) })} />}
      {!span && form.checks.map((check, at) => <CheckForm key={at} {...{ check, entry, vocabulary, isReadOnly }} onChange={(next) => withCheck(at, next)} />)}
    </div>
  );
}

interface CheckProps {
  check: Check;
  entry: VocabularyPath;
  vocabulary: Vocabulary;
  isReadOnly: boolean;
  onChange(check: Check): void;
}

/** Returns the operand that an operator begins with, as near to the one before as it can be. */
function operandFor(operator: string, before: Check['operand'], entry: VocabularyPath): Check['operand'] {
  if (LISTS.includes(operator)) return Array.isArray(before) ? before : [isCount(before) ? '' : before];
  if (operator === '$exists') return true;
  if (operator === '$within') return '7d';
  if (operator === '$count') return isCount(before) ? before : { bounds: { $gte: 1 } };
  const value = Array.isArray(before) ? before[0] : before;
  if (entry.type === 'time' && !isTime(value)) return timeFromNow();
  return value === undefined || isCount(value as Check['operand']) || typeof value === 'boolean' ? (firstCheck(entry).operand as Scalar) : value;
}

function CheckForm({ check, entry, vocabulary, isReadOnly, onChange }: CheckProps): ReactNode {
  const known = vocabulary.operators.filter(({ name, types }) => types.includes(entry.type) && Object.hasOwn(OPERATORS, name)).map(({ name }) => name);
  const operators = entry.type === 'history' ? known : ['is', ...known];
  const { operator, operand } = check;
  return (
    <>
      <label className="px-field">
        <span>{check.not ? 'It is not so that it' : 'It'}</span>
        <select disabled={isReadOnly} value={operator} onChange={(event) => onChange({ ...check, operator: event.currentTarget.value, operand: operandFor(event.currentTarget.value, operand, entry) })}>
          {operators.map((name) => <option key={name} value={name}>{OPERATORS[name]}</option>)}
        </select>
      </label>
      <Operand {...{ check, entry, isReadOnly }} onChange={(next) => onChange({ ...check, operand: next })} />
    </>
  );
}

function Operand({ check: { operator, operand }, entry, isReadOnly, onChange }: Omit<CheckProps, 'vocabulary' | 'onChange'> & { onChange(operand: Check['operand']): void }): ReactNode {
  if (isCount(operand)) return <CountForm count={operand} {...{ isReadOnly, onChange }} />;
  if (Array.isArray(operand))
    return (
      <label className="px-field">
        <span>Values, one on each line</span>
        <textarea rows={3} readOnly={isReadOnly} value={operand.join('\n')} onChange={(event) => onChange(event.currentTarget.value.split('\n').map((text, at) => scalarOf(text, entry.type, operand[at] ?? operand[0])))} />
      </label>
    );
  const choices = typeof operand === 'boolean' ? ['true', 'false'] : operator === 'is' ? entry.values : undefined;
  if (choices)
    return (
      <label className="px-field">
        <span>Value</span>
        <select disabled={isReadOnly} value={String(operand)} onChange={(event) => onChange(typeof operand === 'boolean' ? event.currentTarget.value === 'true' : event.currentTarget.value)}>
          {choices.map((choice) => <option key={choice} value={choice}>{{ true: 'yes', false: 'no' }[choice] ?? choice}</option>)}
        </select>
      </label>
    );
  if (entry.type === 'time' && COMPARISONS.includes(operator) && typeof operand === 'string')
    return <TimeField label="Value" value={operand} isReadOnly={isReadOnly} onChange={(time) => onChange(time ?? '')} />;
  // A part of a date, such as a year, is compared too. It is a text.
  const isDate = entry.format === 'date' && COMPARISONS.includes(operator) && /^(\d{4,}-\d{2}-\d{2})?$/.test(String(operand));
  return (
    <label className="px-field">
      <span>Value</span>
      <input type={isDate ? 'date' : 'text'} readOnly={isReadOnly} value={operand === null ? '' : String(operand)} placeholder={entry.type === 'time' ? '7d' : undefined} onChange={(event) => onChange(scalarOf(event.currentTarget.value, entry.type, operand))} />
    </label>
  );
}

/** A number of times, within a duration or ever. */
function CountForm({ count, isReadOnly, onChange }: { count: Count; isReadOnly: boolean; onChange(count: Count): void }): ReactNode {
  const bounds = Object.entries(count.bounds);
  const set = (at: number, operator: string, value: string) => {
    const next = bounds.map((bound, index): [string, Scalar] => (index === at ? [operator, scalarOf(value, 'number', 0)] : bound));
    onChange({ ...count, bounds: Object.fromEntries(next) });
  };
  const setWithin = (within: string) => {
    const { within: _, ...rest } = count;
    onChange(within === '' ? rest : { ...rest, within });
  };
  return (
    <>
      {bounds.map(([bound, times], at) => (
        <div key={at} className="px-row">
          <label className="px-field">
            <span>How often</span>
            <select disabled={isReadOnly} value={bound} onChange={(event) => set(at, event.currentTarget.value, String(times))}>
              {BOUNDS.map(([operator, text]) => <option key={operator} value={operator}>{text}</option>)}
            </select>
          </label>
          <label className="px-field">
            <span>Times</span>
            <input inputMode="numeric" readOnly={isReadOnly} value={String(times)} onChange={(event) => set(at, bound, event.currentTarget.value)} />
          </label>
        </div>
      ))}
      <label className="px-field">
        <span>Within (such as 7d; empty: ever)</span>
        <input readOnly={isReadOnly} value={count.within ?? ''} onChange={(event) => setWithin(event.currentTarget.value.trim())} />
      </label>
    </>
  );
}
