import assert from 'node:assert/strict';
import { test } from 'node:test';
import { renderToStaticMarkup } from 'react-dom/server';
import { Layout, type NodeProps } from '../../src/react.js';
import { ParallaxEvents, useParallax } from '../../src/react-client.js';
import type { Layout as Tree } from '../../src/types.js';

const tree: Tree = {
  type: 'layout', site: 'fjell', route: '/a', pattern: '/:x', params: { x: 'a' }, variants: 'hero:b', selected: { hero: 'b' },
  layout: {
    root: { props: {} },
    zones: {
      hero: [{ id: 'h', type: 'Hero', props: { title: 'Hello' } }],
      main: [
        { id: 'c', type: 'Columns', props: {}, zones: { left: [{ id: 'l', type: 'Hero', props: { title: 'Left' } }] } },
        { id: 'g', type: 'Grid', props: {}, query: { id: 'q', params: { a: 1 } }, items: [], total: 5, nextCursor: 'c' },
        { id: 'x', type: 'constructor', props: {} },
      ],
    },
  },
};
const Hero = ({ props, route }: NodeProps<any>) => <h1>{`${props.title} ${route.path} ${route.variants}`}</h1>;
const Columns = ({ zones }: NodeProps<any>) => <div>{zones.left}</div>;
const Grid = ({ more, total }: NodeProps<any>) => <i>{JSON.stringify({ more, total })}</i>;
const components = { Hero, Columns, Grid };

test('a layout renders its zones, and the zones inside its nodes', () => {
  const html = renderToStaticMarkup(<Layout tree={tree} components={components} fallback={({ type }) => <b>{type}</b>} />);
  const more = '<i>{&quot;more&quot;:{&quot;query&quot;:&quot;q&quot;,&quot;params&quot;:{&quot;a&quot;:1},&quot;cursor&quot;:&quot;c&quot;},&quot;total&quot;:5}</i>';
  const main = `<div><h1>Left /a hero:b</h1></div>${more}<b>constructor</b>`;
  assert.equal(html, `<section data-zone="hero"><h1>Hello /a hero:b</h1></section><section data-zone="main">${main}</section>`);
});

test('children place the zones, and wrap encloses each element', () => {
  const html = renderToStaticMarkup(
    <Layout tree={tree} components={components} wrap={(element, node) => <p id={node.id}>{element}</p>}>
      {(zone) => <main>{zone('hero')}</main>}
    </Layout>,
  );
  assert.equal(html, '<main><p id="h"><h1>Hello /a hero:b</h1></p></main>');
});

test('an unknown node type is a visible box in development', () => {
  const html = renderToStaticMarkup(<Layout tree={tree} components={{ Hero, Columns, Grid }} />);
  assert.match(html, /<pre>No component for node type &quot;constructor&quot;\.<\/pre>/);
});

test('on a server the events send nothing, and without a provider the hook throws', async () => {
  let sent: Promise<unknown> | undefined;
  const Sender = () => {
    sent = useParallax().track('a');
    return null;
  };
  renderToStaticMarkup(<ParallaxEvents eventsUrl="http://edge" trackingId="track_demo"><Sender /></ParallaxEvents>);
  assert.equal(await sent, null);
  assert.throws(() => renderToStaticMarkup(<Sender />), /No <ParallaxEvents>/);
});
