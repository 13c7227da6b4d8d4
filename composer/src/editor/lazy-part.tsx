// Parts of the editor that few visits need, loaded with their first use.
import { type ComponentType, type ReactNode, Suspense, lazy, useEffect } from 'react';
import { focusLoadedView } from './view-focus.js';

const NotLoaded = (): ReactNode => <p className="px-fault" role="alert">This part could not be loaded. Reload the page. Your changes are kept.</p>;

/** Is shown with the part beside it. */
function Loaded(): ReactNode {
  useEffect(focusLoadedView, []);
  return null;
}

/** Returns a component that loads another one. A part that cannot be loaded says so, and the editor stays. */
export function lazyPart<Props extends object>(load: () => Promise<ComponentType<Props>>): ComponentType<Props> {
  const Part = lazy(() => load().then((loaded) => ({ default: loaded }), () => ({ default: NotLoaded as ComponentType<Props> })));
  return (props) => (
    <Suspense fallback={<p role="status">Loading …</p>}>
      <Part {...props} />
      <Loaded />
    </Suspense>
  );
}
