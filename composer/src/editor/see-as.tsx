// The page as an invented visitor sees it, and why. With the author module it is the page as it is edited, else the published one.
import { type FormEvent, type ReactNode, useEffect, useRef, useState } from 'react';
import type { Vocabulary } from '../core/conditions.js';
import { type Data, choose, fromPuck } from '../core/map.js';
import type { Json } from '../core/json.js';
import type { ZoneDecision } from './decisions.js';
import { lazyPart } from './lazy-part.js';
import { type Device, useEditor } from './puck-adapter.js';
import { zonesOf } from './variants.js';

/** Answers a question about a visitor: `POST /explain` of the admin address has its members. */
type Explain = (question: Record<string, unknown>) => Promise<Record<string, unknown>>;

const USER_AGENTS: Record<string, string> = {
  phone: 'Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/19.0 Mobile/15E148 Safari/604.1',
  tablet: 'Mozilla/5.0 (iPad; CPU OS 19_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/19.0 Mobile/15E148 Safari/604.1',
  desktop: 'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0.0.0 Safari/537.36',
};

/** Returns the members that have a value. */
const present = (members: Record<string, unknown>) => Object.fromEntries(Object.entries(members).filter(([, value]) => value !== '' && value !== undefined));

/** Returns the traits of a text such as `plan=member`, a line each. Numbers, `true` and `false` are no texts. */
function traitsOf(text: string): Record<string, Json> | undefined {
  const pairs = [...text.matchAll(/^\s*([^=\n]+?)\s*=\s*(.+?)\s*$/gm)].map(([, name, value]) => [name!, value!] as const);
  const valueOf = (value: string): Json => (value === 'true' || value === 'false' || /^-?\d+(\.\d+)?$/.test(value) ? JSON.parse(value) : value);
  return pairs.length === 0 ? undefined : Object.fromEntries(pairs.map(([name, value]) => [name, valueOf(value)]));
}

/** Returns the question about the visitor of the form. An event that was some days ago happened at this time of day. */
function questionOf(path: string, form: FormData): Record<string, unknown> {
  const value = (name: string) => String(form.get(name) ?? '').trim();
  const campaignUrl = value('campaign') && `https://site.example${path}?${new URLSearchParams({ utm_source: value('campaign') })}`;
  const visit = { days: value('visited'), event: { type: 'page', properties: { url: `https://site.example${path}` } } };
  const did = { days: value('event') && value('eventDays'), event: { event: value('event') } };
  const past = [visit, did].filter(({ days }) => days !== '').sort((one, other) => Number(other.days) - Number(one.days));
  const events = past.map(({ days, event }) => ({ ...event, at: `-${days}d` }));
  const visitor = present({
    events: events.length > 0 ? events : undefined,
    traits: traitsOf(value('traits')),
    locale: value('locale'),
    country: value('country').toUpperCase(),
    userAgent: USER_AGENTS[value('device')],
  });
  return present({ path, url: campaignUrl, now: value('now') && new Date(value('now')).toISOString(), visitor });
}

/** Returns the question about a real visitor, whose past the server knows. */
function realQuestionOf(path: string, form: FormData): Record<string, unknown> {
  const id = String(form.get('id')).trim();
  return { path, [String(form.get('idKind'))]: id };
}

/** Returns the names of the zones with versions, also those in a version that is not shown. */
function personalizedZones(data: Data): string[] {
  return [...zonesOf(fromPuck(data))].filter(([, zone]) => zone !== null).map(([name]) => name);
}

/** The reasons are in words, which are loaded with the first answer. */
const Decisions = lazyPart(() => import('./decisions.js').then((module) => module.Decisions));

/** The names of the events that conditions can ask for are only a help: any name can be typed. */
const EVENT_NAMES = 'px-event-names';

export interface SeeAsProps {
  path: string;
  vocabulary: Vocabulary | null;
  /** Answers questions about invented visitors. */
  explain: Explain;
  /** Answers questions about real ones. Null without the right. */
  explainReal: Explain | null;
  /** True if the answers are about the page as it is edited. */
  isOfDraft: boolean;
  eventNames: string[];
  /** Gives the shown page the width of a device. */
  onDevice(device: Device): void;
}

export function SeeAs({ path, vocabulary, explain, explainReal, isOfDraft, eventNames, onDevice }: SeeAsProps): ReactNode {
  const { data, setData } = useEditor();
  const [shown, setShown] = useState<{ decisions: ZoneDecision[]; isReal: boolean } | null>(null);
  const [error, setError] = useState<string | null>(null);
  const section = useRef<HTMLElement>(null);
  // The reasons are above the form.
  useEffect(() => {
    if (shown || error) section.current?.scrollIntoView({ block: 'start' });
  }, [shown, error]);
  async function show(question: Promise<Record<string, unknown>>, isReal: boolean): Promise<void> {
    setError(null);
    try {
      const answer = await question;
      setShown({ decisions: (answer.decisions ?? []) as ZoneDecision[], isReal });
      setData(choose(data, (answer.selected ?? {}) as Record<string, string>));
    } catch (reason) {
      setShown(null);
      setError((reason as Error).message);
    }
  }
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    onDevice((form.get('device') || 'desktop') as Device);
    void show(explain(questionOf(path, form)), false);
  };
  return (
    <section aria-label="See as" ref={section}>
      <h2>See as</h2>
      {error && <p className="px-fault" role="alert">{error}</p>}
      {shown && (
        <>
          <Decisions decisions={shown.decisions} zones={personalizedZones(data)} vocabulary={vocabulary} />
          <p className="px-dim">{isOfDraft && !shown.isReal ? 'The decision is that of the page with your changes.' : 'The decision is that of the published site. Changes that are not published do not count.'}</p>
        </>
      )}
      <form onSubmit={submit}>
        <label className="px-field">
          <span>Visits</span>
          <select name="visited">
            <option value="">for the first time</option>
            <option value="1">again after a day</option>
            <option value="7">again after a week</option>
            <option value="60">again after two months</option>
          </select>
        </label>
        <label className="px-field"><span>Came from the campaign source</span><input name="campaign" placeholder="newsletter" /></label>
        <label className="px-field"><span>Did before (name of an event)</span><input name="event" placeholder="Order Completed" list={EVENT_NAMES} /></label>
        <datalist id={EVENT_NAMES}>{eventNames.map((name) => <option key={name} value={name} />)}</datalist>
        <label className="px-field"><span>Days ago</span><input name="eventDays" type="number" min={1} max={365} defaultValue={1} /></label>
        <label className="px-field"><span>Traits, one in each line</span><textarea name="traits" placeholder="plan=member" rows={2} /></label>
        <label className="px-field"><span>Language</span><input name="locale" placeholder="sv-SE" /></label>
        <label className="px-field"><span>Country</span><input name="country" placeholder="SE" maxLength={2} /></label>
        <label className="px-field">
          <span>Device</span>
          <select name="device">
            <option value="">any</option>
            {Object.keys(USER_AGENTS).map((device) => <option key={device}>{device}</option>)}
          </select>
        </label>
        <label className="px-field"><span>At this time</span><input name="now" type="datetime-local" /></label>
        <button type="submit">Show the page to this visitor</button>
      </form>
      {explainReal && <RealVisitor onShow={(form) => void show(explainReal(realQuestionOf(path, form)), true)} />}
    </section>
  );
}

function RealVisitor({ onShow }: { onShow(form: FormData): void }): ReactNode {
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    onShow(new FormData(event.currentTarget));
  };
  return (
    <details>
      <summary>A real visitor</summary>
      <form onSubmit={submit}>
        <label className="px-field">
          <span>Kind of ID</span>
          <select name="idKind">
            <option value="anonId">anon ID</option>
            <option value="userId">user ID</option>
          </select>
        </label>
        <label className="px-field"><span>ID</span><input name="id" required /></label>
        <button type="submit">Show the page to this person</button>
      </form>
    </details>
  );
}
