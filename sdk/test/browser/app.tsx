// The scripts of the pages in the browser suite.
import { StrictMode, useEffect } from 'react';
import { createRoot } from 'react-dom/client';
import { createEvents } from '../../src/browser.js';
import { createClient } from '../../src/client.js';
import { Layout, type NodeProps } from '../../src/react.js';
import { PageView, ParallaxEvents, useMore, useParallax } from '../../src/react-client.js';

/** A button that loads further items. */
function Grid(node: NodeProps) {
  const { items, total, more } = useMore(node);
  return (
    <div id={node.id}>
      <output>{`${items.length} of ${total ?? '?'}`}</output>
      {more && <button onClick={() => void more()}>Load more</button>}
    </div>
  );
}

function Expose() {
  Object.assign(window, { events: useParallax() });
  return null;
}

/** A component of an arm that sends its visitors elsewhere. */
function Away({ to, delayMs }: { to: string; delayMs: number }) {
  useEffect(() => {
    const leave = () => location.replace(to);
    if (delayMs) setTimeout(leave, delayMs);
    else leave();
  }, [to, delayMs]);
  return null;
}

Object.assign(window, {
  createClient,
  createEvents,
  async renderApp(eventsUrl: string, path: string, refreshOn?: 'receipt') {
    const { data } = await createClient({ edgeUrl: eventsUrl, trackingId: 'track_demo' }).resolve(path, { variants: '' });
    if (data.type !== 'layout') throw new Error('a redirect');
    const refresh = () => Object.assign(window, { refreshes: ((window as any).refreshes ?? 0) + 1 });
    createRoot(document.body).render(
      <StrictMode>
        <ParallaxEvents {...{ eventsUrl, refreshOn, refresh }} trackingId="track_demo" dev="send">
          <Expose />
          <PageView path={data.route} variants={data.variants} />
          <Layout tree={data} components={{ ProductGrid: Grid }} fallback={({ zones }) => <div>{Object.values(zones)}</div>} />
        </ParallaxEvents>
      </StrictMode>,
    );
  },
  renderRedirectingArm(eventsUrl: string, to: string, delayMs: number) {
    createRoot(document.body).render(
      <ParallaxEvents eventsUrl={eventsUrl} trackingId="track_demo">
        <Away to={to} delayMs={delayMs} />
        <PageView path="/" variants="hero:away" experiments="redirect:away" />
      </ParallaxEvents>,
    );
  },
});
