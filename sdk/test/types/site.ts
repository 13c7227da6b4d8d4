// Type checks, run by tsc: a wrong name, value or member is an error. `Site` has the form of the output of `parallax types`.
import { type LayoutNode, createClient } from '../../src/index.js';
import type { Registry } from '../../src/react.js';

interface Components {
  Banner: { title: string; code?: string };
  Grid: { columns: number };
}
interface Queries {
  products: { params: { category?: 'tents' | 'stoves' }; fields: { name: string; price: number } };
  product: { params: { slug: string }; fields: { name: string } };
}
interface NodeQueries {
  Grid: 'products';
}
interface Site {
  Components: Components;
  Queries: Queries;
  NodeQueries: NodeQueries;
  Path: '/about' | `/products/${string}`;
}

export async function check() {
  const client = createClient<Site>({ edgeUrl: '', trackingId: '' });
  const { data } = await client.query('products', { params: { category: 'tents' } });
  const price: number = data.items[0]!.fields.price;
  // @ts-expect-error: not in the enumeration
  await client.query('products', { params: { category: 'boats' } });
  // @ts-expect-error: not a query of the site
  await client.query('nothing');
  // @ts-expect-error: `slug` is required
  await client.query('product');
  await client.query('product', { params: { slug: 'a' } });
  // @ts-expect-error: not a field
  data.items[0]!.fields.weight;
  await client.resolve('/products/a', { variants: '' });
  // @ts-expect-error: not a path
  await client.resolve('/nothing', { variants: '' });
  return price;
}

export function narrow(node: LayoutNode<Site>): string | number | undefined {
  if (node.type === 'Banner') return node.props.title;
  // @ts-expect-error: a member of Banner
  node.props.title;
  return node.items?.[0]?.fields.price;
}

export const registry: Registry<Site> = {
  Banner: ({ props }) => props.title,
  Grid: ({ items }) => items?.[0]?.fields.price,
  // @ts-expect-error: not a component of the site
  Unknown: () => null,
};

export const wrong: Registry<Site> = {
  // @ts-expect-error: not a member of the props
  Banner: ({ props }) => props.headline,
};
