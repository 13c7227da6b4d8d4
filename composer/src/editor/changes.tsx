// The changes before a save, and the conflicts of one.
import type { ReactNode } from 'react';
import { Consequences } from './comparison.js';
import type { Compare } from './problems.js';
import { type Drafts, type Site, pagesOf } from './site.js';

/** One line of a difference. */
interface DiffLine {
  mark: ' ' | '+' | '-';
  text: string;
}

/** Lines of one side that are compared one by one. Beyond it the differing part is shown as replaced as a whole. */
const COMPARED_LINES_MAX = 2_000;
/** Unchanged lines that are shown around each change. */
const CONTEXT_LINES = 2;

/** Returns the lines of a difference, without unchanged ones far from each change. */
export function diffLines(before: string | null, after: string | null): DiffLine[] {
  const [a, b] = [before, after].map((text) => (text === null ? [] : text.split('\n')));
  const lines = compare(a!, b!);
  const isNear = lines.map((_, at) => lines.slice(Math.max(0, at - CONTEXT_LINES), at + CONTEXT_LINES + 1).some(({ mark }) => mark !== ' '));
  return lines.filter((_, at) => isNear[at]);
}

function compare(a: string[], b: string[]): DiffLine[] {
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1;
  const same = (lines: string[]): DiffLine[] => lines.map((text) => ({ mark: ' ', text }));
  return [...same(a.slice(0, start)), ...middle(a.slice(start, a.length - end), b.slice(start, b.length - end)), ...same(a.slice(a.length - end))];
}

/** Compares lines by their longest common sequence. */
function middle(a: string[], b: string[]): DiffLine[] {
  const removed = a.map((text): DiffLine => ({ mark: '-', text }));
  const added = b.map((text): DiffLine => ({ mark: '+', text }));
  if (a.length > COMPARED_LINES_MAX || b.length > COMPARED_LINES_MAX) return [...removed, ...added];
  const longest = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      longest[i]![j] = a[i] === b[j] ? longest[i + 1]![j + 1]! + 1 : Math.max(longest[i + 1]![j]!, longest[i]![j + 1]!);
    }
  }
  const lines: DiffLine[] = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      lines.push({ mark: ' ', text: a[i]! });
      i += 1;
      j += 1;
    } else if (j === b.length || (i < a.length && longest[i + 1]![j]! >= longest[i]![j + 1]!)) lines.push(removed[i++]!);
    else lines.push(added[j++]!);
  }
  return lines;
}

/** A change of one place by two people. */
export interface ShownConflict {
  file: string;
  pointer: string;
  ours: string;
  theirs: string;
}

interface ChangesProps {
  site: Site;
  drafts: Drafts;
  conflicts: ShownConflict[];
  /** All files as they are saved, and as they are now. */
  saved: Record<string, string>;
  files: Record<string, string>;
  compare: Compare | null;
  isSaving: boolean;
  mayPublish: boolean;
  /** What the person has written about the changes. It stays if the person looks at a page again. */
  message: string;
  onMessage(message: string): void;
  onSave(publishes: boolean): void;
  onDiscard(file: string): void;
  onClose(): void;
}

export function Changes({ site, drafts, conflicts, saved, files, compare, isSaving, mayPublish, message, onMessage, onSave, onDiscard, onClose }: ChangesProps): ReactNode {
  const paths = new Map(pagesOf(site, drafts).map(({ file, path }) => [file, path]));
  return (
    <main className="px-pages">
      <h1>Changes</h1>
      {conflicts.length > 0 && (
        <section role="alert" className="px-conflicts">
          <h2>Changed by someone else too</h2>
          <p>Your changes and theirs are merged. In these places both of you changed the same thing: the page has your version now. Look at both before you save again.</p>
          <ul className="px-list">
            {conflicts.map(({ file, pointer, ours, theirs }) => (
              <li key={`${file} ${pointer}`}>
                <b>{paths.get(file) ?? file}</b> <code>{pointer}</code>
                <p>Yours: <q>{ours}</q></p>
                <p>Theirs: <q>{theirs}</q></p>
              </li>
            ))}
          </ul>
        </section>
      )}
      {Object.keys(drafts).length > 0 && <Consequences {...{ saved, files, compare }} />}
      {Object.entries(drafts).map(([file, { base, text }]) => (
        <section key={file} aria-label={paths.get(file) ?? file}>
          <div className="px-row">
            <h2>{paths.get(file) ?? file}</h2>
            <span className="px-state">{base === null ? 'new' : text === null ? 'removed' : 'changed'}</span>
            <button type="button" onClick={() => onDiscard(file)}>Discard these changes</button>
          </div>
          <pre className="px-diff" tabIndex={0} role="region" aria-label={`Lines of ${paths.get(file) ?? file}`}>{diffLines(base?.text ?? null, text).map(({ mark, text: line }, at) => <span key={at} className={{ '+': 'px-plus', '-': 'px-minus', ' ': '' }[mark]}>{`${mark} ${line}\n`}</span>)}</pre>
        </section>
      ))}
      {Object.keys(drafts).length === 0 && <p className="px-dim">Nothing is changed.</p>}
      <form
        className="px-row"
        onSubmit={(event) => {
          event.preventDefault();
          const button = (event.nativeEvent as SubmitEvent).submitter as HTMLButtonElement | null;
          onSave(button?.value === 'publish');
        }}
      >
        <label className="px-field">
          <span>What did you change?</span>
          <input value={message} required onChange={(event) => onMessage(event.currentTarget.value)} />
        </label>
        <button type="submit" className="px-primary" disabled={isSaving || Object.keys(drafts).length === 0}>Save</button>
        {mayPublish && <button type="submit" value="publish" disabled={isSaving || Object.keys(drafts).length === 0}>Save and publish</button>}
        <button type="button" onClick={onClose}>Back</button>
      </form>
    </main>
  );
}
