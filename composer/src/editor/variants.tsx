// The personalized zones of a page: their variants, and the rules that select them.
import { type ReactNode, Suspense, lazy, useId, useState } from 'react';
import type { Json, JsonObject } from '../core/json.js';
import { type Change, type Form, type Layout, type PersonalizedZone, type Vocabulary, addVariant, choose, chosenOf, fromForm, fromPuck, removeVariant, renameVariant, toForm, toPuck, words } from '../core/index.js';
import { useEditor } from './puck-adapter.js';

const NotLoaded = (): ReactNode => <p className="px-fault" role="alert">The form could not be loaded. Reload the page. Your changes are kept.</p>;
/** Few pages have a condition, so the form and its checks are loaded with the first one. */
const ConditionForm = lazy(() => import('./condition-form.js').then(({ ConditionForm: form }) => ({ default: form }), () => ({ default: NotLoaded })));

/** The name of the content without a rule. */
const DEFAULT = 'default';

/** Returns the zones of a layout by their names, also those in containers and in the variants. */
export function zonesOf(layout: Layout): Map<string, PersonalizedZone | null> {
  const found = new Map<string, PersonalizedZone | null>();
  const visit = (zones: Layout['zones']): void => {
    for (const [name, zone] of Object.entries(zones)) {
      const personalized = Array.isArray(zone) ? null : zone;
      found.set(name, personalized ?? found.get(name) ?? null);
      const lists = personalized ? [personalized.default, ...Object.values(personalized.variants)] : [zone as any[]];
      for (const node of lists.flat()) if (node.zones) visit(node.zones);
    }
  };
  visit(layout.zones);
  return found;
}

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

export interface AudienceEntry {
  key: string;
  name: string;
  /** The number of its visitors now, in words. Null if no server can be asked. */
  size: string | null;
}

/** The panel of the zones of the page. `isLocked` tells whether a person may not change a zone. */
export function Zones({ vocabulary, audiences, isReadOnly, isLocked }: { vocabulary: Vocabulary | null; audiences: AudienceEntry[]; isReadOnly: boolean; isLocked: (zone: string) => boolean }): ReactNode {
  const { data, setData } = useEditor();
  const [open, setOpen] = useState<string | null>(null);
  const layout = fromPuck(data);
  const zones = [...zonesOf(layout)];
  const chosen = chosenOf(data);
  const name = open !== null && zones.some(([zone]) => zone === open) ? open : null;
  const show = (next: Layout, selection: Record<string, string>) => setData(toPuck(next, { ...chosen, ...selection }));
  return (
    <section aria-label="Zones">
      <h2>Zones</h2>
      <ul className="px-list">
        {zones.map(([zone, personalized]) => (
          <li key={zone}>
            <button type="button" aria-expanded={zone === name} onClick={() => setOpen(zone === name ? null : zone)}>
              {zone} <span className="px-dim">{personalized ? `${Object.keys(personalized.variants).length + 1} versions` : 'the same for everyone'}</span>
            </button>
            {zone === name && (
              <Zone
                {...{ zone, personalized, layout, vocabulary, audiences }}
                chosen={chosen[zone] ?? DEFAULT}
                isReadOnly={isReadOnly || isLocked(zone)}
                onChoose={(key) => setData(choose(data, { [zone]: key }))}
                onChange={show}
              />
            )}
          </li>
        ))}
      </ul>
    </section>
  );
}

interface ZoneProps {
  zone: string;
  personalized: PersonalizedZone | null;
  layout: Layout;
  vocabulary: Vocabulary | null;
  audiences: AudienceEntry[];
  chosen: string;
  isReadOnly: boolean;
  onChoose(key: string): void;
  onChange(layout: Layout, selection: Record<string, string>): void;
}

function Zone({ zone, personalized, layout, vocabulary, audiences, chosen, isReadOnly, onChoose, onChange }: ZoneProps): ReactNode {
  const [error, setError] = useState<string | null>(null);
  const keys = [DEFAULT, ...Object.keys(personalized?.variants ?? {})];
  const apply = (change: Change, selection: Record<string, string>) => {
    setError(change.error ?? null);
    if (change.layout) onChange(change.layout, selection);
  };
  return (
    <div className="px-zone">
      <div role="tablist" aria-label={`Versions of ${zone}`}>
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
        onName(name.trim());
        setName('');
      }}
    >
      <label className="px-field">
        <span>{label}</span>
        <input value={name} required pattern="[A-Za-z0-9_\-]{1,64}" title="Letters, digits, - and _" onChange={(event) => setName(event.currentTarget.value)} />
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

function Rule({ rule, keys, vocabulary, audiences, isReadOnly, onChange }: Omit<RulesProps, 'rules' | 'onChange'> & { rule: JsonObject; onChange(rule: JsonObject): void }): ReactNode {
  const audience = typeof rule.audience === 'string' ? rule.audience : null;
  if (rule.experiment !== undefined) return <p>Experiment <code>{String((rule.experiment as JsonObject)?.key ?? '')}</code></p>;
  return (
    <div className="px-row">
      <label className="px-field">
        <span>Visitors</span>
        <select disabled={isReadOnly} value={audience ?? ''} onChange={(event) => onChange(event.currentTarget.value ? withSelection(rule, 'audience', event.currentTarget.value) : withSelection(rule, 'when', {}))}>
          <option value="">by a condition</option>
          {audiences.map(({ key, name, size }) => <option key={key} value={key}>{size === null ? name : `${name} (${size})`}</option>)}
        </select>
      </label>
      <label className="px-field">
        <span>see</span>
        <select disabled={isReadOnly} value={String(rule.variant ?? '')} onChange={(event) => onChange({ ...rule, variant: event.currentTarget.value })}>
          {keys.filter((key) => key !== DEFAULT).map((key) => <option key={key} value={key}>{key}</option>)}
        </select>
      </label>
      {audience === null && <Condition when={rule.when ?? {}} {...{ vocabulary, audiences, isReadOnly }} onChange={(when) => onChange(withSelection(rule, 'when', when))} />}
    </div>
  );
}

interface ConditionProps extends Omit<RulesProps, 'rules' | 'keys' | 'onChange'> {
  when: Json;
  onChange(when: Json): void;
}

/** A condition as a sentence with its form, if it has one, and as JSON. */
function Condition({ when, vocabulary, audiences, isReadOnly, onChange }: ConditionProps): ReactNode {
  // A form that a person has begun, such as a test without a name yet, may have a condition that has no form.
  const [edited, setEdited] = useState<{ form: Form; text: string } | null>(null);
  const form = edited?.text === JSON.stringify(when) ? edited.form : vocabulary && toForm(when, vocabulary);
  if (!form || !vocabulary) return <ConditionText {...{ when, isReadOnly, onChange }} />;
  const change = (next: Form) => {
    setEdited({ form: next, text: JSON.stringify(fromForm(next)) });
    onChange(fromForm(next));
  };
  return (
    <>
      <p className="px-wide">If {words(form, vocabulary)}.</p>
      <Suspense fallback={<p role="status">Loading the form …</p>}>
        <ConditionForm {...{ form, vocabulary, audiences, isReadOnly }} onChange={change} />
      </Suspense>
      <details className="px-wide">
        <summary>As JSON</summary>
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
