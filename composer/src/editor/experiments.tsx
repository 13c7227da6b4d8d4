// The experiments of the whole site.
import { type FormEvent, type ReactNode, useId, useMemo, useState } from 'react';
import type { Json, JsonObject } from '../core/json.js';
import { keyFromName } from '../core/audiences.js';
import { words } from '../core/condition-words.js';
import { type Vocabulary, toForm } from '../core/conditions.js';
import { type ExperimentPlace, type SiteExperiment, addExperiment, experimentsOf, removeExperiment, setExperiment, standingOf } from '../core/experiments.js';
import { patch } from '../core/patch.js';
import { type SiteZone, zonesOfSite } from '../core/site-zones.js';
import type { ExperimentLimits, Report } from './author.js';
import { valuesOf } from './comparison.js';
import { ExperimentForm, type GoalEntry, armName, weightsOf } from './experiment-form.js';
import { percentOf } from './percent-field.js';
import { ProblemList } from './problem-list.js';
import { member } from './site.js';
import { timeWords } from './time-field.js';

/** The share of new visitors that a new experiment begins with, so that nobody begins a large one by accident. */
const FIRST_COVERAGE = 0.01;

export interface ExperimentsProps {
  files: Record<string, string>;
  report: Report | null;
  vocabulary: Vocabulary | null;
  limits: ExperimentLimits | null;
  mayEdit: boolean;
  /** Tells whether a person may not change a zone. */
  isLocked(place: { file: string; zone: string }): boolean;
  /** Changes the texts of files. */
  onChange(texts: Record<string, string>): void;
  onClose(): void;
}

/** Returns the experiments and zones of the site, or why they cannot be read. */
function readSite(files: Record<string, string>): { values: Record<string, Json>; experiments: SiteExperiment[]; zones: SiteZone[]; error?: string } {
  const values = valuesOf(files);
  try {
    return { values, experiments: experimentsOf(values), zones: zonesOfSite(values) };
  } catch (error) {
    return { values, experiments: [], zones: [], error: (error as Error).message };
  }
}

const isIn = (place: { file: string; zone: string }) => (other: { file: string; zone: string }) => other.file === place.file && other.zone === place.zone;
const placeName = ({ zone, path }: { zone: string; path: string }) => `${zone} on ${path}`;

export function Experiments({ files, report, vocabulary, limits, mayEdit, isLocked, onChange, onClose }: ExperimentsProps): ReactNode {
  const { values, experiments, zones, error } = useMemo(() => readSite(files), [files]);
  const [open, setOpen] = useState<string | null>(null);
  const apply = (changed: Record<string, Json>) => onChange(Object.fromEntries(Object.entries(changed).map(([file, value]) => [file, patch(files[file]!, value)])));
  const add = (zone: SiteZone, key: string) => {
    apply(addExperiment(values, key, zone, { variants: zone.versions, coverage: FIRST_COVERAGE }));
    setOpen(key);
  };
  const concerned = new Set(experiments.flatMap(({ places }) => places.map(({ file }) => file)));
  const free = zones.filter((zone) => zone.versions.length > 1 && !isLocked(zone));
  return (
    <main className="px-pages">
      <div className="px-row px-middle">
        <h1>Experiments</h1>
        <button type="button" onClick={onClose}>Back</button>
      </div>
      {error && <p className="px-fault" role="alert">{error}</p>}
      <ProblemList problems={(report?.errors ?? []).filter(({ file }) => concerned.has(file))} warnings={(report?.warnings ?? []).filter(({ file, pointer }) => concerned.has(file) && /\/experiment(\/|$)/.test(pointer ?? ''))} />
      {mayEdit && <NewExperiment zones={free} isTaken={(key) => experiments.some((other) => other.key === key)} onAdd={add} />}
      <ul className="px-list" aria-label="Experiments">
        {experiments.map((experiment) => (
          <li key={experiment.key} className="px-rule">
            <Experiment
              {...{ experiment, zones, free, vocabulary, limits, values }}
              isOpen={experiment.key === open}
              isReadOnly={!mayEdit || experiment.places.some(isLocked)}
              onOpen={(isOpen) => setOpen(isOpen ? experiment.key : null)}
              onChange={apply}
            />
          </li>
        ))}
      </ul>
      {experiments.length === 0 && !error && <p className="px-dim">The site has no experiment.</p>}
    </main>
  );
}

/** Returns the state of an experiment in words. */
function stateWords({ settings }: SiteExperiment): string {
  const standing = standingOf(settings, Date.now());
  const { from, to, winner } = settings;
  switch (standing) {
    case 'not started':
      return `not started: begins ${timeWords(String(from))}`;
    case 'running':
      return `running${to === undefined ? '' : ` until ${timeWords(to)}`}`;
    case 'ended':
      return `ended ${timeWords(String(to))}`;
    case 'decided':
      return `decided: everyone sees ${armName(String(winner))} since ${timeWords(String(to))}`;
  }
}

const armsText = ({ settings }: SiteExperiment) => {
  const weights = weightsOf(settings);
  const share = typeof settings.coverage === 'number' && settings.coverage < 1 ? `${percentOf(settings.coverage)} % of new visitors: ` : '';
  return share + weights.map((weight, at) => `${armName(String(settings.variants[at]))} ${Math.round(percentOf(weight) * 100) / 100} %`).join(', ');
};

interface ExperimentProps {
  experiment: SiteExperiment;
  values: Record<string, Json>;
  zones: SiteZone[];
  /** The zones that can get an experiment. */
  free: SiteZone[];
  vocabulary: Vocabulary | null;
  limits: ExperimentLimits | null;
  isOpen: boolean;
  isReadOnly: boolean;
  onOpen(isOpen: boolean): void;
  onChange(values: Record<string, Json>): void;
}

function Experiment({ experiment, values, zones, free, vocabulary, limits, isOpen, isReadOnly, onOpen, onChange }: ExperimentProps): ReactNode {
  const { key, places } = experiment;
  const own = zones.filter((zone) => places.some(isIn(zone)));
  const others = free.filter((zone) => !places.some(isIn(zone)));
  const [isRemoving, setRemoving] = useState(false);
  return (
    <>
      <div className="px-row">
        <button type="button" className="px-page" aria-expanded={isOpen} onClick={() => onOpen(!isOpen)}>
          <b>{key}</b> <span className="px-dim">{armsText(experiment)}</span>
        </button>
        <span className="px-state">{stateWords(experiment)}</span>
      </div>
      {!isOpen && <p className="px-dim">{places.map((place) => `${placeName(place)}${conditionWords(place, vocabulary)}`).join('; ')}</p>}
      {isOpen && (
        <>
          <ExperimentForm {...{ experiment, limits, isReadOnly }} zones={own} goals={goalsOf(values['site.json'])} onChange={(settings) => onChange(setExperiment(values, key, settings))} />
          <fieldset className="px-zone">
            <legend>Zones</legend>
            <ul className="px-list">
              {places.map((place) => (
                <li key={place.file + place.pointer} className="px-row px-middle">
                  <span>{placeName(place)}{conditionWords(place, vocabulary)}</span>
                  {!isReadOnly && places.length > 1 && <button type="button" aria-label={`Take out ${placeName(place)}`} onClick={() => onChange(removeExperiment(values, key, place))}>Take out</button>}
                </li>
              ))}
            </ul>
            {!isReadOnly && others.length > 0 && <ZoneForm label="Another zone" button="Add the zone" zones={others} onZone={(zone) => onChange(addExperiment(values, key, zone, experiment.settings))} />}
          </fieldset>
          {!isReadOnly && <button type="button" className="px-danger" onClick={() => setRemoving(true)}>Remove “{key}” …</button>}
          {isRemoving && (
            <div className="px-dialog" role="dialog" aria-label={`Remove ${key}`}>
              <p>No visitor gets an arm of <b>{key}</b> any more. The versions of its zones stay. If it returns as it was, visitors keep their arms.</p>
              <div className="px-row">
                <button type="button" className="px-danger" onClick={() => onChange(removeExperiment(values, key))}>Remove the experiment</button>
                <button type="button" onClick={() => setRemoving(false)}>Cancel</button>
              </div>
            </div>
          )}
        </>
      )}
    </>
  );
}

/** Returns for whom an experiment is in a zone, if it is not for everyone. */
function conditionWords({ when }: ExperimentPlace, vocabulary: Vocabulary | null): string {
  if (when === undefined) return '';
  const form = vocabulary && toForm(when, vocabulary);
  return `, if ${form ? words(form, vocabulary) : JSON.stringify(when)}`;
}

function goalsOf(site: Json | undefined): GoalEntry[] {
  const goals = member(site, 'goals');
  const entries = typeof goals === 'object' && goals !== null ? Object.entries(goals as JsonObject) : [];
  return entries.map(([key, goal]) => ({ key, name: String(member(goal, 'name') ?? key) }));
}

/** Asks for a zone of a page. */
function ZoneForm({ label, button, zones, children, onZone }: { label: string; button: string; zones: SiteZone[]; children?: ReactNode; onZone(zone: SiteZone): void }): ReactNode {
  const [path, setPath] = useState<string | null>(null);
  const [name, setName] = useState<string | null>(null);
  const paths = [...new Set(zones.map((zone) => zone.path))].sort();
  const page = path !== null && paths.includes(path) ? path : null;
  const ofPage = zones.filter((zone) => zone.path === page);
  const chosen = ofPage.find(({ zone }) => zone === name) ?? ofPage[0];
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (chosen) onZone(chosen);
  };
  return (
    <form className="px-row" aria-label={label} onSubmit={submit}>
      {children}
      <label className="px-field">
        <span>Page</span>
        <select value={page ?? ''} onChange={(event) => setPath(event.currentTarget.value)}>
          <option value="">Choose a page</option>
          {paths.map((other) => <option key={other} value={other}>{other}</option>)}
        </select>
      </label>
      <label className="px-field">
        <span>Zone</span>
        <select value={chosen?.zone ?? ''} onChange={(event) => setName(event.currentTarget.value)}>
          {ofPage.map(({ zone, versions }) => <option key={zone} value={zone}>{`${zone} (${versions.length} versions)`}</option>)}
        </select>
      </label>
      <button type="submit" disabled={!chosen}>{button}</button>
    </form>
  );
}

function NewExperiment({ zones, isTaken, onAdd }: { zones: SiteZone[]; isTaken(key: string): boolean; onAdd(zone: SiteZone, key: string): void }): ReactNode {
  const [name, setName] = useState('');
  const id = useId();
  const key = name.trim() === '' ? '' : keyFromName(name, 'experiment', isTaken);
  if (zones.length === 0) return <p className="px-dim">An experiment needs a zone with at least two versions. Add a version to a zone of a page first.</p>;
  return (
    <ZoneForm
      label="New experiment"
      button="New experiment"
      zones={zones}
      onZone={(zone) => {
        setName('');
        onAdd(zone, key);
      }}
    >
      <label className="px-field">
        <span>Name of a new experiment</span>
        <input value={name} required maxLength={64} aria-describedby={id} onChange={(event) => setName(event.currentTarget.value)} />
        {key && <span id={id} className="px-dim">Its key is {key}. The key stays.</span>}
      </label>
    </ZoneForm>
  );
}
