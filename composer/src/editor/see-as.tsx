// The published page as an invented visitor sees it, and why.
import { type FormEvent, type ReactNode, useState } from 'react';
import { type Vocabulary, choose, toForm, words } from '../core/index.js';
import type { Json } from '../core/json.js';
import type { Api } from './api.js';
import { useEditor } from './puck-adapter.js';

/** The decision about a zone, as far as it is shown. */
interface ZoneDecision {
  zone: string;
  key: string;
  source: string;
  rules: { index: number; matched: boolean; condition: Json; why: { path: string; actual: Json } | null; experiment: { key: string } | null }[];
}

const USER_AGENTS: Record<string, string> = {
  phone: 'Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/19.0 Mobile/15E148 Safari/604.1',
  desktop: 'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0.0.0 Safari/537.36',
};

/** Returns the question about a visitor of the form. */
function questionOf(path: string, form: FormData): Record<string, string> {
  const value = (name: string) => String(form.get(name) ?? '').trim();
  const campaign = value('campaign');
  const time = value('now');
  const members = {
    route: path,
    locale: value('locale'),
    country: value('country').toUpperCase(),
    userAgent: USER_AGENTS[value('device')] ?? '',
    url: campaign && `https://site.example${path}?${new URLSearchParams({ utm_source: campaign })}`,
    now: time && new Date(time).toISOString(),
  };
  return Object.fromEntries(Object.entries(members).filter(([, text]) => text !== ''));
}

/** Returns why a zone shows its version, as a sentence. */
function reasonOf({ source, rules }: ZoneDecision, vocabulary: Vocabulary | null): string {
  const rule = rules.find(({ matched }) => matched);
  if (!rule) return source === 'default' ? 'No rule holds for this visitor.' : `It is so by ${source}.`;
  if (rule.experiment) return `The visitor takes part in the experiment “${rule.experiment.key}”.`;
  const form = vocabulary && toForm(rule.condition, vocabulary);
  const condition = form ? words(form, vocabulary) : JSON.stringify(rule.condition);
  return `Rule ${rule.index + 1} holds: ${condition}.`;
}

export function SeeAs({ api, path, vocabulary }: { api: Api; path: string; vocabulary: Vocabulary | null }): ReactNode {
  const { data, setData } = useEditor();
  const [decisions, setDecisions] = useState<ZoneDecision[] | null>(null);
  const [error, setError] = useState<string | null>(null);
  async function show(event: FormEvent<HTMLFormElement>): Promise<void> {
    event.preventDefault();
    setError(null);
    try {
      const answer = await api.explain(questionOf(path, new FormData(event.currentTarget)));
      setDecisions((answer.decisions ?? []) as ZoneDecision[]);
      setData(choose(data, (answer.selected ?? {}) as Record<string, string>));
    } catch (reason) {
      setDecisions(null);
      setError((reason as Error).message);
    }
  }
  return (
    <section aria-label="See as">
      <h2>See as</h2>
      <form onSubmit={(event) => void show(event)}>
        <label className="px-field"><span>Language</span><input name="locale" placeholder="sv-SE" /></label>
        <label className="px-field"><span>Country</span><input name="country" placeholder="SE" maxLength={2} /></label>
        <label className="px-field">
          <span>Device</span>
          <select name="device">
            <option value="">any</option>
            <option value="phone">phone</option>
            <option value="desktop">desktop</option>
          </select>
        </label>
        <label className="px-field"><span>Came from the campaign source</span><input name="campaign" placeholder="newsletter" /></label>
        <label className="px-field"><span>At this time</span><input name="now" type="datetime-local" /></label>
        <button type="submit">Show the page to this visitor</button>
      </form>
      {error && <p className="px-fault" role="alert">{error}</p>}
      {decisions && (
        <>
          <ul className="px-list" aria-label="Decisions">
            {decisions.map((decision) => (
              <li key={decision.zone}>
                <b>{decision.zone}</b>: {decision.key === 'default' ? 'Default' : decision.key}. {reasonOf(decision, vocabulary)}
              </li>
            ))}
            {decisions.length === 0 && <li>The page is the same for everyone.</li>}
          </ul>
          <p className="px-dim">The decision is that of the published site, for a new visitor. Changes that are not published do not count.</p>
        </>
      )}
    </section>
  );
}
