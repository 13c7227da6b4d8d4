// Type checks, run by tsc: a wrong name, value or member is an error. `site.d.ts` is the output of `parallax types snapshots/demo`.
import { type LayoutNode, createClient } from '../../src/index.js';
import type { Registry } from '../../src/react.js';
import type { SiteTypes } from '../../src/types.js';
import type { Components, Site } from '../../example/site.js';

/** The generated types fit. */
export type Checked = Site extends SiteTypes ? true : never;
export const isChecked: Checked = true;

export async function queries() {
  const client = createClient<Site>({ edgeUrl: '', trackingId: '' });
  const { data } = await client.query('products', { params: { category: 'tents', maxPrice: 5000 } });
  const price: number = data.items[0]!.fields.price;
  // @ts-expect-error: not in the enumeration
  await client.query('products', { params: { category: 'boats' } });
  // @ts-expect-error: not a parameter
  await client.query('products', { params: { colour: 'red' } });
  // @ts-expect-error: not a number
  await client.query('products', { params: { maxPrice: '5000' } });
  // @ts-expect-error: a query without parameters
  await client.query('featured', { params: { category: 'tents' } });
  await client.query('featured', { limit: 2 });
  // @ts-expect-error: not a query of the site
  await client.query('nothing');
  // @ts-expect-error: `slug` is required
  await client.query('product');
  await client.query('product', { params: { slug: 'a' } });
  // @ts-expect-error: not a field that the query selects
  data.items[0]!.fields.details;
  // @ts-expect-error: some items lack it
  const people: number = data.items[0]!.fields.people;
  return price + people;
}

export async function paths() {
  const client = createClient<Site>({ edgeUrl: '', trackingId: '' });
  await client.resolve('/products/a', { variants: '' });
  await client.resolve('/sleep', { variants: '' }); // a redirect
  // @ts-expect-error: not a path
  await client.resolve('/nothing', { variants: '' });
}

export function narrow(node: LayoutNode<Site>): string | number | undefined {
  if (node.type === 'Banner') return node.props.title;
  // @ts-expect-error: a member of Banner and of other types, but not of all
  node.props.title;
  // @ts-expect-error: not a component of the site
  if (node.type === 'Carousel') return 0;
  return node.type === 'ProductGrid' ? node.items?.[0]?.fields.price : undefined;
}

/** The props of a component are those of its nodes. */
export const banner: Components['Banner'] = { title: '', text: '', href: '' };
// @ts-expect-error: `href` is missing
export const incomplete: Components['Banner'] = { title: '', text: '' };
// @ts-expect-error: not a text
export const mistyped: Components['Banner'] = { title: 1, text: '', href: '' };

export const registry: Registry<Site> = {
  Banner: ({ props }) => props.title,
  ProductGrid: ({ items }) => items?.[0]?.fields.price,
  // @ts-expect-error: not a component of the site
  Unknown: () => null,
};

export const wrong: Registry<Site> = {
  // @ts-expect-error: not a member of the props
  Banner: ({ props }) => props.headline,
  // @ts-expect-error: not a field of the query's items
  StoreList: ({ items }) => items?.[0]?.fields.price,
};
