// The lists of mistakes, in the words of the program: that of a page, whose entries lead to their places, and those of other files.
import type { ReactNode } from 'react';
import { choose, chosenOf, fromPuck } from '../core/map.js';
import { placeOf } from '../core/place.js';
import type { Diagnostic } from './author.js';
import { focusFields, showBlock, useEditor } from './puck-adapter.js';

const LAYOUT = '/layout';

/** The mistakes of the page. `onZone` shows the versions of a zone, with the focus on them. */
export function PageProblems({ problems, onZone }: { problems: Diagnostic[]; onZone(zone: string): void }): ReactNode {
  const { data, setData, select } = useEditor();
  if (problems.length === 0) return null;
  const show = (pointer: string) => {
    const place = placeOf(fromPuck(data), pointer.startsWith(`${LAYOUT}/`) ? pointer.slice(LAYOUT.length) : '');
    const shown = chosenOf(data);
    if (Object.entries(place.chosen).some(([zone, key]) => shown[zone] !== key)) setData(choose(data, place.chosen));
    if (place.block === null && place.zone !== null) return onZone(place.zone);
    select(place.block);
    focusFields();
    if (place.block !== null) showBlock(place.block);
  };
  return (
    <section aria-label="Mistakes" className="px-problems">
      <h2>Mistakes</h2>
      <ul className="px-list">
        {problems.map((problem, at) => (
          <li key={at}>
            <button type="button" className="px-problem" onClick={() => show(problem.pointer ?? '')}>
              <Words {...problem} />
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}

interface ProblemListProps {
  problems: Diagnostic[];
  /** What the program warns about. The site can be saved and published with it. */
  warnings?: Diagnostic[];
}

/** The mistakes of the files of a view. */
export function ProblemList({ problems, warnings = [] }: ProblemListProps): ReactNode {
  if (problems.length + warnings.length === 0) return null;
  return (
    <section aria-label="Mistakes" className="px-problems">
      <h2>Mistakes</h2>
      <ul className="px-list">
        {[...problems, ...warnings].map((problem, at) => (
          <li key={at}>
            {at >= problems.length && 'Warning: '}
            <Words {...problem} />
          </li>
        ))}
      </ul>
    </section>
  );
}

/** The mistakes of files that the editor of a page does not show. */
export function OtherProblems({ problems }: { problems: Diagnostic[] }): ReactNode {
  if (problems.length === 0) return null;
  return (
    <section aria-label="Mistakes in other files" className="px-problems">
      <h2>Mistakes in other files</h2>
      <ul className="px-list">
        {problems.map((problem, at) => (
          <li key={at}>
            <code>{problem.file}</code> <Words {...problem} />
          </li>
        ))}
      </ul>
    </section>
  );
}

const Words = ({ title, pointer, expected, help }: Diagnostic): ReactNode => (
  <>
    <b>{title}</b> {pointer && <code>{pointer}</code>} {expected && <span>Expected {expected}.</span>} {help?.map((line) => <span key={line}>{line} </span>)}
  </>
);
