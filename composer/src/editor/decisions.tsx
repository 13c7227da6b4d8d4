// The decisions for a visitor, with their reasons in words.
import type { ReactNode } from 'react';
import { words } from '../core/condition-words.js';
import { type Vocabulary, toForm } from '../core/conditions.js';
import type { Json } from '../core/json.js';

/** The decision about a zone, as far as it is shown. */
export interface ZoneDecision {
  zone: string;
  key: string;
  source: string;
  rules: { index: number; matched: boolean; condition: Json; why: { path: string; actual: Json } | null; experiment: { key: string } | null }[];
}

/** Returns why a zone shows its version, as a sentence. */
function reasonOf({ source, rules }: ZoneDecision, vocabulary: Vocabulary | null): string {
  const rule = rules.find(({ matched }) => matched);
  if (!rule) return source === 'default' ? 'No rule holds for this visitor.' : `It is so by ${source}.`;
  if (rule.experiment) return `The visitor takes part in the experiment “${rule.experiment.key}”, and was drawn for this version.`;
  const form = vocabulary && toForm(rule.condition, vocabulary);
  const condition = form ? words(form, vocabulary) : JSON.stringify(rule.condition);
  return `Rule ${rule.index + 1} holds: ${condition}.`;
}

/** `zones` are all zones of the page that have versions. */
export function Decisions({ decisions, zones, vocabulary }: { decisions: ZoneDecision[]; zones: string[]; vocabulary: Vocabulary | null }): ReactNode {
  const missing = zones.filter((name) => !decisions.some(({ zone }) => zone === name));
  return (
    <ul className="px-list" aria-label="Decisions">
      {decisions.map((decision) => (
        <li key={decision.zone}>
          <b>{decision.zone}</b>: {decision.key === 'default' ? 'Default' : decision.key}. {reasonOf(decision, vocabulary)}
        </li>
      ))}
      {missing.map((zone) => (
        <li key={zone}>
          <b>{zone}</b>: not on the page. It is a part of a version that this visitor does not see.
        </li>
      ))}
      {decisions.length === 0 && <li>The page is the same for everyone.</li>}
    </ul>
  );
}
