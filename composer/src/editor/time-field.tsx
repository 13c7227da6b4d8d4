// A time, as a date and a time of day in the time zone of the person.
import { type ReactNode, useState } from 'react';

/** The first year that counts. While a person types a year, its first digits are no time. */
const YEAR_MIN = 1970;
const TIME = /^\d{4}-\d{2}-\d{2}T.*(?:Z|[+-]\d{2}:\d{2})$/;

const zoneName = () => Intl.DateTimeFormat().resolvedOptions().timeZone;

/** Returns a time as the files have it: RFC 3339, in UTC. */
export const timeText = (ms: number) => new Date(ms).toISOString().replace('.000Z', 'Z');

/** Returns the present minute, or one so many milliseconds later. */
export const timeFromNow = (ms = 0) => timeText(Math.floor((Date.now() + ms) / 60_000) * 60_000);

export const isTime = (value: unknown): value is string => typeof value === 'string' && TIME.test(value) && !Number.isNaN(Date.parse(value));

/** Returns a time in words, in the time zone of the person. */
export const timeWords = (value: string) =>
  isTime(value) ? new Date(value).toLocaleString('en-GB', { dateStyle: 'medium', timeStyle: 'short' }) : value;

/** Returns the value of a field of date and time. */
function localText(value: string): string {
  const time = new Date(value);
  const two = (number: number) => String(number).padStart(2, '0');
  const date = `${String(time.getFullYear()).padStart(4, '0')}-${two(time.getMonth() + 1)}-${two(time.getDate())}`;
  const seconds = time.getSeconds() === 0 ? '' : `:${two(time.getSeconds())}`;
  return `${date}T${two(time.getHours())}:${two(time.getMinutes())}${seconds}`;
}

interface TimeFieldProps {
  label: string;
  /** The time as the file has it, or undefined for none. A text that is no time is edited as text. */
  value: string | undefined;
  isReadOnly: boolean;
  onChange(value: string | undefined): void;
}

/** A field for a time. An empty field is no time. */
export function TimeField({ label, value, isReadOnly, onChange }: TimeFieldProps): ReactNode {
  // A field that a person has not filled yet has no value, and the first digits of a year are another year.
  const [typed, setTyped] = useState<string | null>(null);
  const isText = value !== undefined && value !== '' && !isTime(value);
  const change = (text: string) => {
    setTyped(text);
    if (isText) onChange(text === '' ? undefined : text);
    else if (text === '') onChange(undefined);
    else if (Number(text.split('-')[0]) >= YEAR_MIN) onChange(timeText(Date.parse(text)));
  };
  const shown = isText ? value : (typed ?? (value ? localText(value) : ''));
  return (
    <label className="px-field">
      <span>{label} <span className="px-dim">({zoneName()})</span></span>
      <input type={isText ? 'text' : 'datetime-local'} max={isText ? undefined : '9999-12-31T23:59'} step="any" readOnly={isReadOnly} value={shown} aria-invalid={isText} onChange={(event) => change(event.currentTarget.value)} onBlur={() => setTyped(null)} />
    </label>
  );
}

/** The length of a new time span. */
export const SPAN_MS = 7 * 86_400_000;

/** The begin and the end of a time span. Either can be absent. */
export interface Span {
  from?: string;
  until?: string;
}

/** Returns the time span of the operators of a condition, or null if they are no such span. */
export function spanOf(operators: unknown): Span | null {
  if (typeof operators !== 'object' || operators === null || Array.isArray(operators)) return null;
  const entries = Object.entries(operators);
  if (entries.length === 0 || !entries.every(([name, value]) => (name === '$gte' || name === '$lt') && typeof value === 'string')) return null;
  const { $gte, $lt } = operators as { $gte?: string; $lt?: string };
  return { from: $gte, until: $lt };
}

/** Returns the operators of a time span. One without begin and end has a begin that is no time, which the program refuses. */
export function operatorsOf({ from, until }: Span): Record<string, string> {
  if (from === undefined && until === undefined) return { $gte: '' };
  return { ...(from !== undefined && { $gte: from }), ...(until !== undefined && { $lt: until }) };
}

export function SpanFields({ span, isReadOnly, onChange }: { span: Span; isReadOnly: boolean; onChange(span: Span): void }): ReactNode {
  const change = (part: Span) => {
    const { from, until } = { ...span, ...part };
    // A begin after the end takes the end along.
    const isTurned = part.from !== undefined && isTime(from) && isTime(until) && Date.parse(from) >= Date.parse(until);
    onChange({ from: from || undefined, until: (isTurned ? timeText(Date.parse(from!) + SPAN_MS) : until) || undefined });
  };
  return (
    <>
      <TimeField label="Begin" value={span.from} isReadOnly={isReadOnly} onChange={(from) => change({ from })} />
      <TimeField label="End" value={span.until} isReadOnly={isReadOnly} onChange={(until) => change({ until })} />
    </>
  );
}
