'use client';
import { useMore } from '@parallax/sdk/react/client';
import { ProductCards } from './cards';
import type { Node } from './types';

/** The products of a query, with a button for the next page. */
export function MoreProducts(node: Node<'ProductGrid'>) {
  const { items, total, more, isLoading, error } = useMore(node);
  return (
    <>
      <ProductCards products={items.map(({ id, fields }) => ({ id, href: `/products/${fields.slug}`, ...fields }))} />
      <p className="more">
        {total !== undefined && <output>{`${items.length} of ${total}`}</output>}
        {more && (
          <button className="button quiet" onClick={() => void more()} disabled={isLoading}>
            {node.props.more ?? 'Load more'}
          </button>
        )}
        {error && <span role="alert">The list did not load. Please try again.</span>}
      </p>
    </>
  );
}
