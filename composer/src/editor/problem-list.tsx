// The mistakes of some files, in the words of the program.
import type { ReactNode } from 'react';
import type { Diagnostic } from './author.js';

interface ProblemListProps {
  problems: Diagnostic[];
  /** What the program warns about. The site can be saved and published with it. */
  warnings?: Diagnostic[];
}

export function ProblemList({ problems, warnings = [] }: ProblemListProps): ReactNode {
  if (problems.length + warnings.length === 0) return null;
  return (
    <section aria-label="Mistakes" className="px-problems">
      <h2>Mistakes</h2>
      <ul className="px-list">
        {[...problems, ...warnings].map(({ title, pointer, expected, help }, at) => (
          <li key={at}>
            {at >= problems.length && 'Warning: '}<b>{title}</b> {pointer && <code>{pointer}</code>} {expected && <span>Expected {expected}.</span>} {help?.map((line) => <span key={line}>{line} </span>)}
          </li>
        ))}
      </ul>
    </section>
  );
}
