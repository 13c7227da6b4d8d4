'use client';
import { useMore } from '@parallax/sdk/next/client';
import { ProductCards } from './cards';
import type { Node } from './types';

type Products = Pick<Node<'ProductGrid'> | Node<'ProductStrip'>, 'items' | 'total' | 'more'>;

/** The products of a query, with a button for the next page. The query may have parameters of the route. */
export function MoreProducts({ label = 'Load more', ...node }: Products & { label?: string }) {
  const { items, total, more, isLoading, error } = useMore(node);
  return (
    <>
      <ProductCards products={items.map(({ id, fields }) => ({ id, href: `/products/${fields.slug}`, ...fields }))} />
      <p className="more">
        {total !== undefined && <output>{`${items.length} of ${total}`}</output>}
        {more && (
          <button className="button quiet" onClick={() => void more()} disabled={isLoading}>
            {label}
          </button>
        )}
        {error && <span role="alert">The list did not load. Please try again.</span>}
      </p>
    </>
  );
}
