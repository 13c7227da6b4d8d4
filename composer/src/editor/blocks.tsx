// The outline of the page, and the menus that insert, move and remove blocks without dragging.
import { type KeyboardEvent, type ReactNode, useId, useLayoutEffect, useRef, useState } from 'react';
import { type Locks, type ShownZone, type Spot, canHold, insertBlock, isZoneLocked, locksOf, moveBlock, removeBlock, shownZones, spotOf } from '../core/blocks.js';
import type { Data, PuckNode } from '../core/map.js';
import { textsIn } from './fields.js';
import { type ConfigOptions, focusFields, labelOf, showBlock, typesOf, useEditor } from './puck-adapter.js';

/** Characters of the text that tells a block apart from others of its type. */
const SUMMARY_CHARS_MAX = 40;

/** Returns the name of a block: its type, and its title, its first text or its ID. */
function nameOf({ type, props }: PuckNode): string {
  const title = props.props?.title;
  const text = textsIn(title ?? null).next().value ?? textsIn(props.props ?? {}).next().value ?? props.id;
  return `${labelOf(type)} “${text.length > SUMMARY_CHARS_MAX ? `${text.slice(0, SUMMARY_CHARS_MAX - 1)}…` : text}”`;
}

/** A zone that a block can be placed in. */
interface Target extends Omit<ShownZone, 'around'> {
  /** False if only other pages or blocks of the type have the zone. */
  exists: boolean;
}

/** Returns the zones that exist, and those that the page and its blocks could have. */
function targetsOf(data: Data, shapes: ConfigOptions['shapes']): Target[] {
  const shown = shownZones(data);
  const has = (owner: string | null, name: string) => shown.some((zone) => (zone.owner?.props.id ?? null) === owner && zone.name === name);
  const further = (owner: PuckNode | null, path: string[]): Target[] => {
    const declared = owner ? (shapes.types[owner.type]?.zones ?? []) : shapes.root.zones;
    return declared.filter((name) => !has(owner?.props.id ?? null, name)).map((name) => ({ owner, name, chosen: null, blocks: [], path: [...path, name], exists: false }));
  };
  const within = shown.flatMap((zone) => [{ ...zone, exists: true }, ...zone.blocks.flatMap((block) => further(block, zone.path))]);
  return [...within, ...further(null, [])];
}

const targetName = ({ owner, name, chosen, exists }: Target, isClosed: boolean): string =>
  `${name}${chosen === null ? '' : ` (${chosen === 'default' ? 'Default' : chosen})`}${owner ? ` in ${nameOf(owner)}` : ''}${isClosed ? ', locked' : exists ? '' : ', empty'}`;

interface BlocksProps extends Pick<ConfigOptions, 'components' | 'shapes'> {
  isReadOnly: boolean;
  isLocked: (zone: string) => boolean;
}

/** The outline: the page, its zones and their blocks. A button selects its block, and leads to the fields. */
export function Outline(props: BlocksProps): ReactNode {
  const { data, selected, select } = useEditor();
  const zones = shownZones(data);
  const open = (id: string | null) => {
    select(id);
    focusFields();
    if (id !== null) showBlock(id);
  };
  const list = (owner: string | null): ReactNode => {
    const own = zones.filter((zone) => (zone.owner?.props.id ?? null) === owner);
    if (own.length === 0) return null;
    return (
      <ul className="px-list">
        {own.map((zone) => (
          <li key={zone.name}>
            <span className="px-dim">
              {zone.name}
              {zone.chosen !== null && zone.chosen !== 'default' && `: ${zone.chosen}`}
              {isZoneLocked(zone, props.isLocked) && ', locked'}
            </span>
            <ul className="px-list">
              {zone.blocks.map((block) => (
                <li key={block.props.id}>
                  <button type="button" aria-current={selected?.id === block.props.id} onClick={() => open(block.props.id)}>
                    {nameOf(block)}
                  </button>
                  {list(block.props.id)}
                </li>
              ))}
            </ul>
          </li>
        ))}
      </ul>
    );
  };
  return (
    <nav aria-label="Outline">
      <h2>Outline</h2>
      <button type="button" aria-current={selected === null} onClick={() => open(null)}>The page itself</button>
      {!props.isReadOnly && <Insert {...props} />}
      {list(null)}
    </nav>
  );
}

/** Moves the focus to the selected block in the outline. */
const focusOutline = (): void => document.querySelector<HTMLElement>('nav[aria-label="Outline"] [aria-current="true"]')?.focus();

interface MenuProps {
  /** The name of the button, which is that of the form as well. */
  name: string;
  children(close: () => void): ReactNode;
}

/** A button that opens a form. Escape closes the form, and the focus returns to the button. */
function Menu({ name, children }: MenuProps): ReactNode {
  const [isOpen, setOpen] = useState(false);
  const button = useRef<HTMLButtonElement>(null);
  const form = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    if (isOpen) form.current?.querySelector('select')?.focus();
  }, [isOpen]);
  const close = () => {
    setOpen(false);
    button.current?.focus();
  };
  return (
    <>
      <button ref={button} type="button" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>{name} …</button>
      {isOpen && (
        <div ref={form} role="group" aria-label={name} className="px-dialog px-wide" onKeyDown={(event: KeyboardEvent) => event.key === 'Escape' && close()}>
          {children(close)}
        </div>
      )}
    </>
  );
}

/** Asks for a place: a zone, and a block of it. `moved` is the block that is moved there. */
function PlaceForm({ shapes, isLocked, moved, before, button, onPlace }: Omit<BlocksProps, 'components' | 'isReadOnly'> & { moved: PuckNode | null; before?: ReactNode; button: string; onPlace(to: Spot): void }): ReactNode {
  const { data, selected } = useEditor();
  const id = useId();
  const targets = targetsOf(data, shapes).filter(({ owner }) => !moved || canHold(data, moved.props.id, owner?.props.id ?? null));
  const near = selected && spotOf(data, selected.id);
  const first = targets.findIndex((target) => !isZoneLocked(target, isLocked) && (!near || (target.name === near.zone && (target.owner?.props.id ?? null) === near.owner)));
  const [chosen, setChosen] = useState(() => Math.max(0, first));
  const [index, setIndex] = useState<number | null>(null);
  const target = targets[chosen];
  const isRefused = !target || isZoneLocked(target, isLocked);
  const at = Math.min(index ?? target?.blocks.length ?? 0, target?.blocks.length ?? 0);
  return (
    <form
      className="px-column"
      onSubmit={(event) => {
        event.preventDefault();
        if (!isRefused) onPlace({ owner: target.owner?.props.id ?? null, zone: target.name, index: at });
      }}
    >
      {before}
      <label className="px-field">
        <span>Zone</span>
        <select value={chosen} onChange={(event) => (setChosen(Number(event.currentTarget.value)), setIndex(null))}>
          {targets.map((each, number) => (
            <option key={`${each.owner?.props.id} ${each.name}`} value={number} disabled={isZoneLocked(each, isLocked)}>{targetName(each, isZoneLocked(each, isLocked))}</option>
          ))}
        </select>
      </label>
      <label className="px-field">
        <span>Position</span>
        <select value={at} aria-describedby={id} onChange={(event) => setIndex(Number(event.currentTarget.value))}>
          {target?.blocks.map((block, number) => <option key={block.props.id} value={number}>before {nameOf(block)}</option>)}
          <option value={target?.blocks.length ?? 0}>at the end</option>
        </select>
      </label>
      <button type="submit" disabled={isRefused}>{button}</button>
      {isRefused && <p id={id} className="px-fault">Every zone of the page is locked.</p>}
    </form>
  );
}

/** Inserts a block, selects it, and leads to its fields. */
function Insert({ components, shapes, isLocked }: BlocksProps): ReactNode {
  const { data, setData, select } = useEditor();
  const types = typesOf({ components, shapes });
  const [type, setType] = useState(types[0] ?? '');
  if (types.length === 0) return null;
  const insert = (to: Spot) => {
    const id = `${type}-${crypto.randomUUID()}`;
    setData(insertBlock(data, { type, props: { id, props: {} } }, to));
    select(id);
    focusFields();
  };
  const typeField = (
    <label className="px-field">
      <span>Block</span>
      <select value={type} onChange={(event) => setType(event.currentTarget.value)}>
        {types.map((each) => <option key={each} value={each}>{labelOf(each)}</option>)}
      </select>
    </label>
  );
  return <Menu name="Insert">{(close) => <PlaceForm {...{ shapes, isLocked }} moved={null} before={typeField} button="Insert the block" onPlace={(to) => (close(), insert(to))} />}</Menu>;
}

/** What can be done with the selected block. */
export function BlockActions({ shapes, isReadOnly, isLocked }: BlocksProps): ReactNode {
  const { data, selected, setData, select, duplicate } = useEditor();
  const spot = selected && spotOf(data, selected.id);
  const zone = spot && shownZones(data).find(({ name, owner }) => name === spot.zone && (owner?.props.id ?? null) === spot.owner);
  if (!spot || !zone) return <h2>The page itself</h2>;
  const block = zone.blocks[spot.index]!;
  const locks = locksOf(data, isLocked);
  const move = (to: Spot) => {
    const moved = moveBlock(data, block.props.id, to);
    if (!moved) return;
    setData(moved);
    select(block.props.id);
    showBlock(block.props.id);
  };
  const remove = () => {
    const rest = zone.blocks.filter((other) => other !== block);
    const next = rest[Math.min(spot.index, rest.length - 1)]?.props.id ?? spot.owner;
    setData(removeBlock(data, block.props.id));
    select(next);
    requestAnimationFrame(focusOutline); // the outline is rendered by then
  };
  return (
    <>
      <h2>{nameOf(block)}</h2>
      <div className="px-row">
        <button type="button" onClick={focusOutline}>Back to the outline</button>
        {!isReadOnly && <Changes {...{ block, spot, locks, shapes, isLocked }} isLast={spot.index === zone.blocks.length - 1} onMove={move} onRemove={remove} onDuplicate={() => duplicate(block.props.id)} />}
      </div>
    </>
  );
}

interface ChangesProps extends Pick<BlocksProps, 'shapes' | 'isLocked'> {
  block: PuckNode;
  spot: Spot;
  isLast: boolean;
  locks: Locks;
  onMove(to: Spot): void;
  onRemove(): void;
  onDuplicate(): void;
}

/** The changes of a block that its locks allow. A button that keeps the focus is never disabled. */
function Changes({ block, spot, isLast, locks, shapes, isLocked, onMove, onRemove, onDuplicate }: ChangesProps): ReactNode {
  if (locks.inside.has(block.props.id)) return <p className="px-dim">This block is in a locked zone.</p>;
  const holdsLock = locks.around.has(block.props.id);
  return (
    <>
      <button type="button" aria-disabled={spot.index === 0} onClick={() => spot.index > 0 && onMove({ ...spot, index: spot.index - 1 })}>Move up</button>
      <button type="button" aria-disabled={isLast} onClick={() => !isLast && onMove({ ...spot, index: spot.index + 2 })}>Move down</button>
      <button type="button" disabled={holdsLock} onClick={onDuplicate}>Duplicate</button>
      <button type="button" className="px-danger" disabled={holdsLock} onClick={onRemove}>Remove</button>
      <Menu name="Move" key={block.props.id}>{(close) => <PlaceForm {...{ shapes, isLocked }} moved={block} button="Move the block" onPlace={(to) => (close(), onMove(to))} />}</Menu>
      {holdsLock && <p className="px-dim">A zone of this block is locked, so the block can be neither removed nor copied.</p>}
    </>
  );
}
