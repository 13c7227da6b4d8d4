// The focus after a change of the view, for people who work with the keyboard.
import { useEffect, useRef } from 'react';

/** Moves the focus to the heading of a new view, and in the list of the pages to the page that was open. */
export function useViewFocus(view: { name: string; file?: string }): void {
  const last = useRef(view);
  useEffect(() => {
    const before = last.current;
    last.current = view;
    if (before === view) return;
    const page = view.name === 'pages' && before.file !== undefined ? document.querySelector<HTMLElement>(`.px-page[data-file="${CSS.escape(before.file)}"]`) : null;
    const heading = document.querySelector<HTMLElement>('.px-composer h1');
    if (heading) heading.tabIndex = -1;
    (page ?? heading)?.focus();
  }, [view]);
}
