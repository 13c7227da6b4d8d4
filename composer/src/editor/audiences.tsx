// The audiences of the site, and the places that use them.
import { type FormEvent, type ReactNode, useMemo, useState } from 'react';
import type { Json, JsonObject } from '../core/json.js';
import { type AudienceUse, keyFromName, usesOfAudiences } from '../core/audiences.js';
import { words } from '../core/condition-words.js';
import { type Vocabulary, toForm } from '../core/conditions.js';
import { patch } from '../core/patch.js';
import type { Report } from './author.js';
import { valuesOf } from './comparison.js';
import { ProblemList } from './problem-list.js';
import { member } from './site.js';
import type { AudienceEntry } from './variants.js';
import { Condition } from './zone-editor.js';

const FILE = 'audiences.json';

export interface AudiencesProps {
  files: Record<string, string>;
  /** The names and sizes of the audiences, in the order of the file. */
  audiences: AudienceEntry[];
  report: Report | null;
  vocabulary: Vocabulary | null;
  mayEdit: boolean;
  /** Changes the text of a file. */
  onChange(file: string, text: string): void;
  onClose(): void;
}

const isObject = (value: Json | undefined): value is JsonObject => typeof value === 'object' && value !== null && !Array.isArray(value);

export function Audiences({ files, audiences, report, vocabulary, mayEdit, onChange, onClose }: AudiencesProps): ReactNode {
  const values = useMemo(() => valuesOf(files), [files]);
  const uses = useMemo(() => usesIn(values), [values]);
  const [open, setOpen] = useState<string | null>(null);
  const text = files[FILE];
  const content = text === undefined ? {} : values[FILE];
  const write = (next: JsonObject) => onChange(FILE, text === undefined ? `${JSON.stringify(next, null, 2)}\n` : patch(text, next));
  const add = (name: string) => {
    const key = keyFromName(name, 'audience', (taken) => Object.hasOwn(content as JsonObject, taken));
    write({ ...(content as JsonObject), [key]: { name, when: {} } });
    setOpen(key);
  };
  const remove = (key: string) => write(Object.fromEntries(Object.entries(content as JsonObject).filter(([other]) => other !== key)));
  const isReadOnly = !mayEdit || !isObject(content);
  return (
    <main className="px-pages">
      <div className="px-row px-middle">
        <h1>Audiences</h1>
        <button type="button" onClick={onClose}>Back</button>
      </div>
      {!isObject(content) && <p className="px-fault" role="alert">{FILE} is no JSON object, so it must be repaired as text first.</p>}
      <ProblemList problems={(report?.errors ?? []).filter(({ file }) => file === FILE)} warnings={(report?.warnings ?? []).filter(({ file }) => file === FILE)} />
      {!isReadOnly && <NewAudience onAdd={add} />}
      <ul className="px-list" aria-label="Audiences">
        {audiences.map((entry) => (
          <li key={entry.key} className="px-rule">
            <Audience
              {...{ entry, audiences, vocabulary, isReadOnly }}
              uses={uses && (uses.get(entry.key) ?? [])}
              audience={member(content, entry.key)}
              isOpen={entry.key === open}
              onOpen={(isOpen) => setOpen(isOpen ? entry.key : null)}
              onChange={(next) => write({ ...(content as JsonObject), [entry.key]: next })}
              onRemove={() => remove(entry.key)}
            />
          </li>
        ))}
      </ul>
      {audiences.length === 0 && <p className="px-dim">The site has no audience.</p>}
    </main>
  );
}

/** Asks for the name of an audience. Its key is made from it. */
function NewAudience({ onAdd }: { onAdd(name: string): void }): ReactNode {
  const [name, setName] = useState('');
  const submit = (event: FormEvent) => {
    event.preventDefault();
    onAdd(name.trim());
    setName('');
  };
  return (
    <form className="px-row" aria-label="New audience" onSubmit={submit}>
      <label className="px-field">
        <span>Name of a new audience</span>
        <input value={name} required pattern=".*\S.*" onChange={(event) => setName(event.currentTarget.value)} />
      </label>
      <button type="submit">New audience</button>
    </form>
  );
}

interface AudienceProps {
  entry: AudienceEntry;
  /** The audience as the file has it. */
  audience: Json | undefined;
  /** Null if they are not known. */
  uses: AudienceUse[] | null;
  audiences: AudienceEntry[];
  vocabulary: Vocabulary | null;
  isOpen: boolean;
  isReadOnly: boolean;
  onOpen(isOpen: boolean): void;
  onChange(audience: JsonObject): void;
  onRemove(): void;
}

function Audience({ entry: { key, name, size }, audience, uses, audiences, vocabulary, isOpen, isReadOnly, onOpen, onChange, onRemove }: AudienceProps): ReactNode {
  const when = member(audience, 'when') ?? {};
  const form = vocabulary && toForm(when, vocabulary);
  const places = [...new Set((uses ?? []).map((use) => placeName(use, audiences)))];
  const [isRefused, setRefused] = useState(false);
  const members = isObject(audience) ? audience : {};
  return (
    <>
      <div className="px-row">
        <button type="button" className="px-page" aria-expanded={isOpen} onClick={() => onOpen(!isOpen)}>
          <b>{name}</b> <span className="px-dim">{key}</span>
        </button>
        {size !== null && <span className="px-state">{size}</span>}
      </div>
      {!isOpen && <p className="px-notice">{form ? `If ${words(form, vocabulary)}.` : <code>{JSON.stringify(when)}</code>}</p>}
      <p className="px-dim">{uses === null ? 'The pages cannot be read, so it is not known what uses it.' : places.length === 0 ? 'Nothing uses it.' : `Used by ${places.join(', ')}.`}</p>
      {isOpen && (
        <>
          <div className="px-row">
            <label className="px-field px-wide">
              <span>Name</span>
              <input readOnly={isReadOnly} value={name} onChange={(event) => onChange({ ...members, name: event.currentTarget.value })} />
            </label>
            <Condition {...{ when, vocabulary, isReadOnly }} audiences={audiences.filter((other) => other.key !== key)} onChange={(next) => onChange({ ...members, when: next })} />
          </div>
          {!isReadOnly && uses && <button type="button" className="px-danger" onClick={() => (places.length === 0 ? onRemove() : setRefused(true))}>Remove this audience</button>}
          {isRefused && places.length > 0 && (
            <p className="px-fault" role="alert">The audience cannot be removed, because {places.join(', ')} {places.length === 1 ? 'uses' : 'use'} it. Choose other visitors there first.</p>
          )}
        </>
      )}
    </>
  );
}

/** Returns the places that use each audience. Null if a page is nested too deeply. */
function usesIn(values: Record<string, Json>): Map<string, AudienceUse[]> | null {
  try {
    return usesOfAudiences(values);
  } catch {
    return null;
  }
}

function placeName({ place }: AudienceUse, audiences: AudienceEntry[]): string {
  if ('audience' in place) return `the audience “${audiences.find(({ key }) => key === place.audience)?.name ?? place.audience}”`;
  return `${place.zone} on ${place.path}`;
}
