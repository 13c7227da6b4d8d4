import Link from 'next/link';
import { Action, Block } from './blocks';
import { type ProductCard, ProductCards } from './cards';
import { Picture } from './picture';
import { MoreProducts } from './more';
import type { Node } from './types';
import { BuyButton, Remember } from './visitor';
import { price, weight } from './units';

/** Returns the first page of a query, for a client component. */
function pageOf({ items, total, more }: Node<'ProductGrid'> | Node<'ProductStrip'>) {
  return { items, total, more };
}

/** The products that an author chose, or those of a query with a button for the next page. */
export function ProductGrid(node: Node<'ProductGrid'>) {
  const { title, items = [] } = node.props;
  const authored: ProductCard[] = items.map(({ sku, href, left, reason, was, ...rest }) => ({
    ...rest,
    id: sku,
    href: href ?? '/sale',
    note: reason ?? (left === undefined ? undefined : `${left} left`),
    was,
  }));
  return (
    <Block title={title}>
      {node.items ? <MoreProducts {...pageOf(node)} label={node.props.more} /> : <ProductCards products={authored} />}
    </Block>
  );
}

export function ProductStrip(node: Node<'ProductStrip'>) {
  const { title, action } = node.props;
  return (
    <Block title={title} className="strip">
      <MoreProducts {...pageOf(node)} />
      {action && <Action {...action} />}
    </Block>
  );
}

export function ProductPage({ props, items = [] }: Node<'ProductPage'>) {
  const product = items[0];
  if (!product) return <Block>This product is gone.</Block>;
  const { fields } = product;
  const facts = [fields.season, fields.people && `${fields.people} people`, fields.fill, fields.fuel, fields.litres && `${fields.litres} l`];
  return (
    <div className="product">
      <Picture image={fields.image} />
      <div>
        <p className="kicker">
          <Link href={`/${fields.category}`}>{fields.category.replace('-', ' ')}</Link>
        </p>
        <h1>{fields.name}</h1>
        <p className="lead">{fields.summary}</p>
        <p className="price">{price(fields.price, fields.currency)}</p>
        <p>{fields.details}</p>
        <ul className="checklist">{fields.points?.map((point) => <li key={point}>{point}</li>)}</ul>
        <p className="chips">{facts.filter(Boolean).map((fact) => <span key={String(fact)}>{fact}</span>)}</p>
        <BuyButton sku={product.id} category={fields.category} label={fields.inStock ? props.buy : props.soldOut} isBuy={fields.inStock} />
        <p className="note">{`${weight(fields.weightGrams)}. ${props.weightNote}`}</p>
      </div>
      <Remember name={fields.name} href={`/products/${fields.slug}`} />
    </div>
  );
}

export function Plans({ props }: Node<'Plans'>) {
  return (
    <div className="plans">
      {props.plans.map(({ key, name, perYear, points, recommended }) => (
        <div key={key} className={recommended ? 'plan recommended' : 'plan'}>
          <h3>{name}</h3>
          <p className="price">{perYear ? `${price(perYear, props.currency)} a year` : 'Free'}</p>
          <ul className="checklist">{points.map((point) => <li key={point}>{point}</li>)}</ul>
        </div>
      ))}
    </div>
  );
}

export function StoreList({ props, items = [] }: Node<'StoreList'>) {
  return (
    <Block title={props.title}>
      <div className="stories compact" lang={props.lang}>
        {items.map(({ id, fields }) => (
          <Link key={id} href={`/stores/${fields.slug}`} className="story">
            <h3>{fields.name}</h3>
            <p>{fields.street}</p>
            <span className="meta">{`Mon–Fri ${fields.hours['mon-fri']}${fields.rents ? ' · rents gear' : ''}`}</span>
          </Link>
        ))}
      </div>
      {props.note && <p className="note">{props.note}</p>}
    </Block>
  );
}

export function StorePage({ props, items = [] }: Node<'StorePage'>) {
  const fields = items[0]?.fields;
  if (!fields) return <Block>This store is gone.</Block>;
  return (
    <div className="product">
      <Picture image={fields.image} />
      <div>
        <p className="kicker">{`Since ${fields.since}`}</p>
        <h1>{fields.name}</h1>
        <p className="lead">{fields.feature}</p>
        <address>
          {fields.street}
          <br />
          <a href={`tel:${fields.phone.replaceAll(' ', '')}`}>{fields.phone}</a>
        </address>
        <p>{`Mon–Fri ${fields.hours['mon-fri']}, Sat ${fields.hours.sat}`}</p>
        <p>{fields.notes}</p>
        <p className="note">{fields.rents ? props.rentsYes : props.rentsNo}</p>
      </div>
    </div>
  );
}
