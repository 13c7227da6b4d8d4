// A page that a link shows to a person without a session.
import { type ComponentType, type ReactNode, type SyntheticEvent, useEffect, useMemo, useState } from 'react';
import type { Layout, PersonalizedZone } from '../core/layout.js';
import { toPuck } from '../core/map.js';
import type { JsonObject } from '../core/json.js';
import { type PreviewedPage, createApi } from './api.js';
import { shapesOf } from './fields.js';
import { RenderedPage, type FieldOverrides, type Registry } from './puck-adapter.js';
import { member, parsed } from './site.js';
import { zonesOf } from './variants.js';

interface PreviewProps {
  endpoint: string;
  components: Registry;
  fields?: FieldOverrides;
  page?: ComponentType<{ props: any; zones: Record<string, ReactNode> }>;
  token: string;
}

/** Loads the page of a link, and shows it. It asks for nothing else. */
export function Preview({ endpoint, token, ...options }: PreviewProps): ReactNode {
  const [shown, setShown] = useState<PreviewedPage | null>(null);
  const [error, setError] = useState<string | null>(null);
  useEffect(() => {
    let isCurrent = true;
    createApi(endpoint).preview(token).then((page) => isCurrent && setShown(page), (reason: Error) => isCurrent && setError(reason.message));
    return () => {
      isCurrent = false;
    };
  }, [endpoint, token]);
  if (error) return <p className="px-composer px-fault" role="alert">{error}</p>;
  if (!shown) return <p className="px-composer" role="status">Loading the page …</p>;
  return <Previewed {...options} shown={shown} />;
}

/** Returns the layout of a page and its personalized zones, or null if it cannot be shown. */
function contentOf(text: string): { layout: Layout; zones: [string, PersonalizedZone][]; shapes: ReturnType<typeof shapesOf> } | null {
  try {
    const layout = member(parsed(text), 'layout')!;
    toPuck(layout as unknown as Layout);
    const zones = [...zonesOf(layout as unknown as Layout)].filter((entry): entry is [string, PersonalizedZone] => entry[1] !== null);
    return { layout: layout as unknown as Layout, zones, shapes: shapesOf([layout]) };
  } catch {
    return null;
  }
}

/** Returns who sees a version of a zone, in words. */
function visitorsOf({ rules }: PersonalizedZone, key: string, audiences: Record<string, string>): string {
  const words = (rules as unknown as JsonObject[]).flatMap(({ audience, experiment, when, variant }) => {
    const arms = member(experiment, 'variants');
    if (experiment !== undefined) return typeof arms === 'object' && arms !== null && Object.hasOwn(arms, key) ? ['a part of an experiment'] : [];
    if (variant !== key) return [];
    return [typeof audience === 'string' ? (Object.hasOwn(audiences, audience) ? audiences[audience]! : audience) : when === undefined ? 'some visitors' : 'visitors by a condition'];
  });
  return words.join(', or ');
}

const stopLink = (event: SyntheticEvent) => {
  if ((event.target as Element).closest('a, area')) event.preventDefault();
};
const stop = (event: SyntheticEvent) => event.preventDefault();

function Previewed({ shown, components, fields, page }: Omit<PreviewProps, 'endpoint' | 'token'> & { shown: PreviewedPage }): ReactNode {
  const { text, audiences, by, expires } = shown;
  const content = useMemo(() => contentOf(text), [text]);
  const [chosen, setChosen] = useState<Record<string, string>>({});
  const data = useMemo(() => content && toPuck(content.layout, chosen), [content, chosen]);
  const path = member(parsed(text), 'path');
  return (
    <>
      <header className="px-composer px-bar px-above" aria-label="Preview">
        <b>Preview of {typeof path === 'string' ? path : shown.page}</b>
        <span className="px-dim">
          The link was made by {by}. It is valid until <time dateTime={expires}>{new Date(expires).toLocaleString('en-GB')}</time>.
        </span>
        {content?.zones.map(([name, zone]) => (
          <label key={name} className="px-field">
            <span>{name}</span>
            <select value={chosen[name] ?? 'default'} onChange={(event) => setChosen({ ...chosen, [name]: event.currentTarget.value })}>
              <option value="default">Default: everyone else</option>
              {Object.keys(zone.variants).map((key) => {
                const visitors = visitorsOf(zone, key, audiences);
                return <option key={key} value={key}>{visitors ? `${key}: ${visitors}` : key}</option>;
              })}
            </select>
          </label>
        ))}
      </header>
      {content && data ? (
        // The page is to be looked at: its links and forms lead nowhere.
        <div onClickCapture={stopLink} onSubmitCapture={stop}>
          <RenderedPage data={data} {...{ components, shapes: content.shapes }} overrides={fields} Page={page} />
        </div>
      ) : (
        <p className="px-composer px-fault" role="alert">This page has mistakes, and cannot be shown.</p>
      )}
    </>
  );
}
