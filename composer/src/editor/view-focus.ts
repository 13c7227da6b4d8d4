// The focus after a change of the view, for people who work with the keyboard.
import { useEffect, useRef } from 'react';

/** True while the heading of a new view has not been shown yet, because the view is loaded. */
let isWaiting = false;

/** Moves the focus to the heading of a view that has just been loaded. */
export function focusLoadedView(): void {
  if (isWaiting) focusHeading();
}

function focusHeading(): void {
  const heading = document.querySelector<HTMLElement>('.px-composer h1');
  isWaiting = heading === null;
  if (heading) heading.tabIndex = -1;
  heading?.focus();
}

/** Moves the focus to the heading of a new view, and in the list of the pages to the page that was open. */
export function useViewFocus(view: { name: string; file?: string }): void {
  const last = useRef(view);
  useEffect(() => {
    const before = last.current;
    last.current = view;
    if (before === view) return;
    const page = view.name === 'pages' && before.file !== undefined ? document.querySelector<HTMLElement>(`.px-page[data-file="${CSS.escape(before.file)}"]`) : null;
    if (page) page.focus();
    else focusHeading();
  }, [view]);
}
