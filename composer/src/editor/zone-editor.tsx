// The editor of a zone: its versions, and the rules that select them.
import { type ReactNode, useEffect, useId, useRef, useState } from 'react';
import { words } from '../core/condition-words.js';
import { type Form, type Vocabulary, fromForm, toForm } from '../core/conditions.js';
import type { Json, JsonObject } from '../core/json.js';
import type { Layout, PersonalizedZone } from '../core/layout.js';
import { type Change, addVariant, removeVariant, renameVariant } from '../core/variants.js';
import { lazyPart } from './lazy-part.js';
import { SPAN_MS, SpanFields, operatorsOf, spanOf, timeFromNow } from './time-field.js';
import { type AudienceEntry, DEFAULT } from './variants.js';

/** The choice of visitors in a time span. No audience has this key. */
const SPAN = '$span';

/** Few pages have a condition. */
const ConditionForm = lazyPart(() => import('./condition-form.js').then((module) => module.ConditionForm));

/** Returns the layout with other rules of a zone. */
export function withRules(layout: Layout, zone: string, rules: JsonObject[]): Layout {
  const edit = (zones: Layout['zones']): Layout['zones'] =>
    Object.fromEntries(
      Object.entries(zones).map(([name, content]) => {
        const within = (nodes: any[]) => nodes.map((node) => (node.zones ? { ...node, zones: edit(node.zones) } : node));
        if (Array.isArray(content)) return [name, within(content)];
        const variants = Object.fromEntries(Object.entries(content.variants).map(([key, nodes]) => [key, within(nodes)]));
        return [name, { ...content, default: within(content.default), variants, ...(name === zone && { rules }) }];
      }),
    );
  return { ...layout, zones: edit(layout.zones) };
}

export interface ZoneProps {
  zone: string;
  personalized: PersonalizedZone | null;
  layout: Layout;
  vocabulary: Vocabulary | null;
  audiences: AudienceEntry[];
  chosen: string;
  /** Moves the focus to the tab of the shown version. Another object moves it again. */
  wanted: object | null;
  isReadOnly: boolean;
  onChoose(key: string): void;
  onChange(layout: Layout, selection: Record<string, string>): void;
}

export function Zone({ zone, personalized, layout, vocabulary, audiences, chosen, wanted, isReadOnly, onChoose, onChange }: ZoneProps): ReactNode {
  const tabs = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (wanted) tabs.current?.querySelector<HTMLElement>('[aria-selected="true"]')?.focus();
  }, [wanted]);
  const [error, setError] = useState<string | null>(null);
  const keys = [DEFAULT, ...Object.keys(personalized?.variants ?? {})];
  const apply = (change: Change, selection: Record<string, string>) => {
    setError(change.error ?? null);
    if (change.layout) onChange(change.layout, selection);
  };
  return (
    <div className="px-zone">
      <div role="tablist" ref={tabs} aria-label={`Versions of ${zone}`}>
        {keys.map((key) => (
          <button key={key} type="button" role="tab" aria-selected={key === chosen} onClick={() => onChoose(key)}>
            {key === DEFAULT ? 'Default' : key}
          </button>
        ))}
      </div>
      {!isReadOnly && (
        <NameForm label={`New version, a copy of ${chosen}`} button="Add version" onName={(key) => apply(addVariant(layout, zone, key, chosen), { [zone]: key })} />
      )}
      {!isReadOnly && chosen !== DEFAULT && (
        <>
          <NameForm label="Another name of this version" button="Rename" onName={(key) => apply(renameVariant(layout, zone, chosen, key), { [zone]: key })} />
          <button type="button" className="px-danger" onClick={() => apply(removeVariant(layout, zone, chosen), { [zone]: DEFAULT })}>
            Remove “{chosen}”
          </button>
        </>
      )}
      {error && <p className="px-fault" role="alert">{error}</p>}
      {personalized && <Rules rules={personalized.rules} keys={keys} {...{ vocabulary, audiences, isReadOnly }} onChange={(rules) => onChange(withRules(layout, zone, rules), {})} />}
    </div>
  );
}

/** Asks for the name of a version. */
function NameForm({ label, button, onName }: { label: string; button: string; onName(name: string): void }): ReactNode {
  const [name, setName] = useState('');
  return (
    <form
      className="px-row"
      onSubmit={(event) => {
        event.preventDefault();
        onName(name.trim().replace(/[^A-Za-z0-9_-]+/g, '-'));
        setName('');
      }}
    >
      <label className="px-field">
        <span>{label}</span>
        <input value={name} required maxLength={64} onChange={(event) => setName(event.currentTarget.value)} />
      </label>
      <button type="submit">{button}</button>
    </form>
  );
}

/** Returns a rule for an audience, or for a condition, in place of what selected it before. The order of its members stays. */
function withSelection(rule: JsonObject, name: 'audience' | 'when', value: Json): JsonObject {
  const selects = (member: string) => member === 'audience' || member === 'when';
  const entries = Object.entries(rule);
  const at = Math.max(0, entries.findIndex(([member]) => selects(member)));
  const others = entries.filter(([member]) => !selects(member));
  return Object.fromEntries([...others.slice(0, at), [name, value], ...others.slice(at)]);
}

interface RulesProps {
  rules: JsonObject[];
  keys: string[];
  vocabulary: Vocabulary | null;
  audiences: AudienceEntry[];
  isReadOnly: boolean;
  onChange(rules: JsonObject[]): void;
}

/** The rules of a zone. The first one that holds decides. */
function Rules({ rules, keys, vocabulary, audiences, isReadOnly, onChange }: RulesProps): ReactNode {
  const replaced = (at: number, rule: JsonObject) => onChange(rules.map((old, index) => (index === at ? rule : old)));
  const moved = (at: number, to: number) => {
    const next = rules.filter((_, index) => index !== at);
    next.splice(to, 0, rules[at]!);
    onChange(next);
  };
  return (
    <section aria-label="Rules">
      <h3>Who sees what</h3>
      <p className="px-dim">The first rule that holds decides. Everyone else sees Default.</p>
      <ol className="px-list">
        {rules.map((rule, at) => (
          <li key={at} className="px-rule">
            <Rule {...{ rule, keys, vocabulary, audiences, isReadOnly }} onChange={(next) => replaced(at, next)} />
            {!isReadOnly && (
              <div className="px-row">
                <button type="button" disabled={at === 0} onClick={() => moved(at, at - 1)} aria-label={`Move rule ${at + 1} up`}>↑</button>
                <button type="button" disabled={at === rules.length - 1} onClick={() => moved(at, at + 1)} aria-label={`Move rule ${at + 1} down`}>↓</button>
                <button type="button" onClick={() => onChange(rules.filter((_, index) => index !== at))} aria-label={`Remove rule ${at + 1}`}>Remove</button>
              </div>
            )}
          </li>
        ))}
      </ol>
      {!isReadOnly && keys.length > 1 && (
        <button type="button" onClick={() => onChange([...rules, { ...(audiences[0] ? { audience: audiences[0].key } : { when: {} }), variant: keys[1]! }])}>
          Add a rule
        </button>
      )}
    </section>
  );
}

/** Returns the condition of a time span. */
const whenOf = (span: Parameters<typeof operatorsOf>[0]): Json => ({ 'now.at': operatorsOf(span) });

/** Returns the time span of a condition that tests nothing else, or null. */
function spanOfCondition(when: Json | undefined): ReturnType<typeof spanOf> {
  const [entry, ...more] = typeof when === 'object' && when !== null ? Object.entries(when) : [];
  return entry && entry[0] === 'now.at' && more.length === 0 ? spanOf(entry[1]) : null;
}

function Rule({ rule, keys, vocabulary, audiences, isReadOnly, onChange }: Omit<RulesProps, 'rules' | 'onChange'> & { rule: JsonObject; onChange(rule: JsonObject): void }): ReactNode {
  const audience = typeof rule.audience === 'string' ? rule.audience : null;
  const [isByCondition, setByCondition] = useState(false);
  if (rule.experiment !== undefined) return <p>Experiment <code>{String((rule.experiment as JsonObject)?.key ?? '')}</code></p>;
  const span = audience === null && !isByCondition ? spanOfCondition(rule.when) : null;
  const select = (choice: string) => {
    setByCondition(choice === '');
    if (choice === SPAN) onChange(withSelection(rule, 'when', whenOf(spanOfCondition(rule.when) ?? { from: timeFromNow(), until: timeFromNow(SPAN_MS) })));
    else if (choice !== '') onChange(withSelection(rule, 'audience', choice));
    // The tests of a time span stay, so that others can join them.
    else if (!span) onChange(withSelection(rule, 'when', {}));
  };
  return (
    <div className="px-row">
      <label className="px-field">
        <span>Visitors</span>
        <select disabled={isReadOnly} value={audience ?? (span ? SPAN : '')} onChange={(event) => select(event.currentTarget.value)}>
          <option value="">by a condition</option>
          <option value={SPAN}>everyone, in a time span</option>
          {audiences.map(({ key, name, size }) => <option key={key} value={key}>{size === null ? name : `${name} (${size})`}</option>)}
        </select>
      </label>
      <label className="px-field">
        <span>see</span>
        <select disabled={isReadOnly} value={String(rule.variant ?? '')} onChange={(event) => onChange({ ...rule, variant: event.currentTarget.value })}>
          {keys.filter((key) => key !== DEFAULT).map((key) => <option key={key} value={key}>{key}</option>)}
        </select>
      </label>
      {span && <SpanFields {...{ span, isReadOnly }} onChange={(next) => onChange(withSelection(rule, 'when', whenOf(next)))} />}
      {audience === null && !span && <Condition when={rule.when ?? {}} {...{ vocabulary, audiences, isReadOnly }} onChange={(when) => onChange(withSelection(rule, 'when', when))} />}
    </div>
  );
}

export interface ConditionProps {
  vocabulary: Vocabulary | null;
  audiences: Pick<AudienceEntry, 'key' | 'name'>[];
  isReadOnly: boolean;
  when: Json;
  onChange(when: Json): void;
}

/** A condition as a sentence with its form, if it has one, and as JSON. */
export function Condition({ when, vocabulary, audiences, isReadOnly, onChange }: ConditionProps): ReactNode {
  // A form that a person has begun, such as a test without a name yet, may have a condition that has no form.
  const [edited, setEdited] = useState<{ form: Form; text: string } | null>(null);
  const [isTextOpen, setTextOpen] = useState(false);
  const form = edited?.text === JSON.stringify(when) ? edited.form : vocabulary && toForm(when, vocabulary);
  const change = (next: Form) => {
    setEdited({ form: next, text: JSON.stringify(fromForm(next)) });
    onChange(fromForm(next));
  };
  return (
    <>
      {form && vocabulary && (
        <div className="px-wide">
          <p>If {words(form, vocabulary)}.</p>
          <ConditionForm {...{ form, vocabulary, audiences, isReadOnly }} onChange={change} />
        </div>
      )}
      {/* A text that loses its form while a person types keeps its field. */}
      <details className="px-wide" open={!form || isTextOpen} onToggle={(event) => setTextOpen(event.currentTarget.open)}>
        <summary onClick={(event) => !form && event.preventDefault()}>As JSON</summary>
        <ConditionText {...{ when, isReadOnly, onChange }} />
      </details>
    </>
  );
}

/** A condition as JSON. The text becomes the condition while it is JSON; the program tells other mistakes. */
function ConditionText({ when, isReadOnly, onChange }: { when: Json; isReadOnly: boolean; onChange(when: Json): void }): ReactNode {
  const [text, setText] = useState<string | null>(null);
  const id = useId();
  const shown = text ?? JSON.stringify(when, null, 2);
  let fault: string | null = null;
  try {
    JSON.parse(shown);
  } catch (error) {
    fault = (error as Error).message;
  }
  const change = (next: string) => {
    setText(next);
    try {
      onChange(JSON.parse(next));
    } catch {
      // The fault below the field tells it.
    }
  };
  return (
    <label className="px-field px-wide">
      <span>Condition</span>
      <textarea rows={6} readOnly={isReadOnly} value={shown} aria-invalid={fault !== null} aria-describedby={id} onChange={(event) => change(event.currentTarget.value)} onBlur={() => fault === null && setText(null)} />
      <span id={id} className="px-fault">{fault}</span>
    </label>
  );
}
