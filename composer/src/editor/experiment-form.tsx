// The form of an experiment. A change is one for all zones that have the experiment.
import { type ReactNode, useId } from 'react';
import type { ExperimentSettings, SiteExperiment } from '../core/experiments.js';
import type { SiteZone } from '../core/site-zones.js';
import type { ExperimentLimits } from './author.js';
import { PercentField, percentOf, shareOf } from './percent-field.js';
import { TimeField, timeFromNow, timeText } from './time-field.js';

/** A goal of the site, to choose. */
export interface GoalEntry {
  key: string;
  name: string;
}

export interface ExperimentFormProps {
  experiment: SiteExperiment;
  /** The zones that have the experiment. */
  zones: SiteZone[];
  goals: GoalEntry[];
  /** Null without the author module: the program then tells after a save what is too much. */
  limits: ExperimentLimits | null;
  isReadOnly: boolean;
  onChange(settings: ExperimentSettings): void;
}

interface PartProps extends Pick<ExperimentFormProps, 'isReadOnly'> {
  settings: ExperimentSettings;
  /** Changes members. One that is undefined is removed. */
  set(members: Partial<ExperimentSettings>): void;
}

export const armName = (arm: string) => (arm === 'default' ? 'Default' : arm);
const list = (value: unknown): any[] => (Array.isArray(value) ? value : []);

/** Returns the shares of the arms. They are equal if the file has none. */
export function weightsOf({ variants, weights }: ExperimentSettings): number[] {
  const arms = list(variants);
  return arms.map((_, at) => (Array.isArray(weights) ? Number(weights[at] ?? 0) : 1 / arms.length));
}

export function ExperimentForm({ experiment, zones, goals, limits, isReadOnly, onChange }: ExperimentFormProps): ReactNode {
  const { settings, conflicts } = experiment;
  const set = (members: Partial<ExperimentSettings>) => onChange({ ...settings, ...members });
  const part = { settings, isReadOnly, set };
  return (
    <>
      {conflicts.length > 0 && <p className="px-fault">The zones have different values of {conflicts.join(', ')}. The form shows those of the first zone, and a change makes them equal everywhere.</p>}
      <Arms {...part} zones={zones} />
      <Coverage {...part} stepsMax={limits?.rampSteps ?? Infinity} />
      <Goals {...part} goals={goals} guardrailsMax={limits?.guardrails ?? Infinity} />
      <Times {...part} />
    </>
  );
}

/** The arms: versions that all zones have, and the share of visitors of each. */
function Arms({ settings, zones, isReadOnly, set }: PartProps & { zones: SiteZone[] }): ReactNode {
  const arms: string[] = list(settings.variants);
  const versions = [...new Set([...arms, ...zones.flatMap((zone) => zone.versions)])];
  const weights = weightsOf(settings);
  const sum = percentOf(weights.reduce((all, weight) => all + weight, 0));
  // Other arms have no weights yet. Without weights all arms have equal shares.
  const choose = (arm: string, isChosen: boolean) => set({ variants: isChosen ? [...arms, arm] : arms.filter((other) => other !== arm), weights: undefined });
  const weigh = (at: number, share: number) => {
    const isOfTwo = arms.length === 2;
    set({ weights: weights.map((weight, index) => (index === at ? share : isOfTwo ? shareOf(100 - percentOf(share)) : weight)) });
  };
  return (
    <fieldset className="px-zone">
      <legend>Arms</legend>
      <ul className="px-list">
        {versions.map((version) => {
          const at = arms.indexOf(version);
          const lacking = zones.filter((zone) => !zone.versions.includes(version));
          return (
            <li key={version} className="px-row px-middle">
              <label className="px-check">
                <input type="checkbox" checked={at >= 0} disabled={isReadOnly || (at < 0 && lacking.length > 0)} onChange={(event) => choose(version, event.currentTarget.checked)} />
                <b>{armName(version)}</b>
              </label>
              {at >= 0 && <PercentField label={`Share of ${armName(version)}`} share={weights[at]!} {...{ isReadOnly }} onChange={(share) => weigh(at, share)} />}
              <span className="px-dim">shows the version “{armName(version)}” of {zones.filter((zone) => !lacking.includes(zone)).map(({ zone, path }) => `${zone} on ${path}`).join(', ') || 'no zone'}</span>
              {lacking.length > 0 && <span className={at < 0 ? 'px-dim' : 'px-fault'}>Not in {lacking.map(({ zone, path }) => `${zone} on ${path}`).join(', ')}.</span>}
            </li>
          );
        })}
      </ul>
      {sum !== 100 && <p className="px-fault">The shares are {sum} % together, and must be 100 %.</p>}
      <p className="px-dim">Other arms or shares begin a new phase: all visitors start again. To let more people in, raise the share of new visitors below.</p>
    </fieldset>
  );
}

type Step = { from: string; share: number };

/** The new visitors that take part: a share, or a ramp of shares. */
function Coverage({ settings, isReadOnly, set, stepsMax }: PartProps & { stepsMax: number }): ReactNode {
  const { coverage } = settings;
  const steps: Step[] | null = Array.isArray(coverage) ? coverage : null;
  const share = typeof coverage === 'number' ? coverage : 1;
  const withStep = (at: number, step: Partial<Step>) => set({ coverage: steps!.map((old, index) => (index === at ? { ...old, ...step } : old)) });
  return (
    <fieldset className="px-zone">
      <legend>New visitors that take part</legend>
      <label className="px-field">
        <span>They are let in</span>
        <select disabled={isReadOnly} value={steps ? 'ramp' : 'share'} onChange={(event) => set({ coverage: event.currentTarget.value === 'ramp' ? [{ from: timeFromNow(), share }] : Number(steps?.at(-1)?.share ?? 1) })}>
          <option value="share">as one share</option>
          <option value="ramp">in steps</option>
        </select>
      </label>
      {!steps && <PercentField label="Share of new visitors" {...{ share, isReadOnly }} onChange={(next) => set({ coverage: next })} />}
      {steps && (
        <ol className="px-list">
          {steps.map((step, at) => (
            <li key={at} className="px-row">
              <TimeField label={`Step ${at + 1} begins`} value={step?.from} isReadOnly={isReadOnly} onChange={(from) => withStep(at, { from: from ?? '' })} />
              <PercentField label={`Share from step ${at + 1}`} share={Number(step?.share ?? 0)} isReadOnly={isReadOnly} onChange={(next) => withStep(at, { share: next })} />
              {!isReadOnly && steps.length > 1 && <button type="button" aria-label={`Remove step ${at + 1}`} onClick={() => set({ coverage: steps.filter((_, index) => index !== at) })}>Remove</button>}
            </li>
          ))}
        </ol>
      )}
      {steps && !isReadOnly && <button type="button" disabled={steps.length >= stepsMax} onClick={() => set({ coverage: [...steps, nextStep(steps)] })}>Add a step</button>}
      <p className="px-dim">Visitors who saw an arm keep it at any share. 0 % lets nobody new in.</p>
    </fieldset>
  );
}

const DAY_MS = 86_400_000;

/** Returns a step a day after the last one, with twice its share. */
function nextStep(steps: Step[]): Step {
  const last = steps.at(-1);
  const begin = Date.parse(last?.from ?? '');
  return { from: Number.isNaN(begin) ? timeFromNow(DAY_MS) : timeText(begin + DAY_MS), share: Math.min(1, shareOf(percentOf(Number(last?.share ?? 0)) * 2)) };
}

/** The goal, and the goals that must not get worse. */
function Goals({ settings, goals, isReadOnly, set, guardrailsMax }: PartProps & { goals: GoalEntry[]; guardrailsMax: number }): ReactNode {
  const id = useId();
  type Guardrails = NonNullable<ExperimentSettings['guardrails']>;
  const guardrails: Guardrails = list(settings.guardrails);
  const write = (next: Guardrails) => set({ guardrails: next.length === 0 ? undefined : next });
  const withOne = (at: number, members: Partial<Guardrails[number]>) =>
    write(guardrails.map((old, index) => (index === at ? (JSON.parse(JSON.stringify({ ...old, ...members })) as Guardrails[number]) : old)));
  return (
    <fieldset className="px-zone">
      <legend>Goal</legend>
      <datalist id={id}>
        {goals.map(({ key, name }) => <option key={key} value={key}>{name}</option>)}
      </datalist>
      <label className="px-field">
        <span>Goal: a goal of the site, the name of an event, or page: and a path</span>
        <input list={id} readOnly={isReadOnly} value={settings.goal ?? ''} onChange={(event) => set({ goal: event.currentTarget.value || undefined })} />
      </label>
      <ul className="px-list" aria-label="Guardrails">
        {guardrails.map((guardrail, at) => (
          <li key={at} className="px-row">
            <label className="px-field">
              <span>Guardrail {at + 1}: must not get worse</span>
              <input list={id} readOnly={isReadOnly} value={String(guardrail?.goal ?? '')} onChange={(event) => withOne(at, { goal: event.currentTarget.value })} />
            </label>
            <PercentField label={`Largest loss of guardrail ${at + 1}`} share={Number(guardrail?.margin ?? 0)} isReadOnly={isReadOnly} onChange={(margin) => withOne(at, { margin })} />
            <label className="px-check">
              <input type="checkbox" disabled={isReadOnly} checked={guardrail?.lowerIsBetter === true} onChange={(event) => withOne(at, { lowerIsBetter: event.currentTarget.checked || undefined })} />
              <span>Fewer are better in guardrail {at + 1}</span>
            </label>
            {!isReadOnly && <button type="button" aria-label={`Remove guardrail ${at + 1}`} onClick={() => write(guardrails.filter((_, index) => index !== at))}>Remove</button>}
          </li>
        ))}
      </ul>
      {!isReadOnly && <button type="button" disabled={guardrails.length >= guardrailsMax} onClick={() => write([...guardrails, { goal: goals[0]?.key ?? '', margin: 0.02 }])}>Add a guardrail</button>}
    </fieldset>
  );
}

/** The begin, the end and the winner. */
function Times({ settings, isReadOnly, set }: PartProps): ReactNode {
  const { from, to, winner } = settings;
  const arms: string[] = list(settings.variants);
  // A winner is shown from the end on. Without an end it is the present time: an earlier one leaves events out of the result.
  const decide = (arm: string) => set(arm === '' ? { winner: undefined } : { winner: arm, to: to ?? timeFromNow() });
  return (
    <fieldset className="px-zone">
      <legend>Begin and end</legend>
      <div className="px-row">
        <TimeField label="Begin" value={from} isReadOnly={isReadOnly} onChange={(next) => set({ from: next })} />
        <TimeField label="End" value={to} isReadOnly={isReadOnly} onChange={(next) => set({ to: next })} />
        {!isReadOnly && <button type="button" onClick={() => set({ to: timeFromNow() })}>End now</button>}
        <label className="px-field">
          <span>Winner, which all visitors see after the end</span>
          <select disabled={isReadOnly} value={winner ?? ''} onChange={(event) => decide(event.currentTarget.value)}>
            <option value="">none: the rule ends</option>
            {[...new Set(winner === undefined ? arms : [...arms, winner])].map((arm) => <option key={arm} value={arm}>{armName(arm)}</option>)}
          </select>
        </label>
      </div>
      <p className="px-dim">Without a begin, the experiment begins with its publication.</p>
    </fieldset>
  );
}

