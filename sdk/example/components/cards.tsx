import Link from 'next/link';
import { Picture } from './picture';
import { price, weight } from './units';

export interface ProductCard {
  id: string;
  href: string;
  name: string;
  price: number;
  currency: string;
  image: { src: string; alt: string };
  weightGrams?: number;
  was?: number;
  note?: string;
}

export function ProductCards({ products }: { products: ProductCard[] }) {
  return (
    <ul className="cards">
      {products.map(({ id, href, name, image, currency, was, weightGrams, note, price: value }) => (
        <li key={id}>
          <Link href={href}>
            <Picture image={image} />
            <strong>{name}</strong>
            <span className="meta">
              {was && <s>{price(was, currency)}</s>} {price(value, currency)}
              {weightGrams ? ` · ${weight(weightGrams)}` : ''}
            </span>
            {note && <small>{note}</small>}
          </Link>
        </li>
      ))}
    </ul>
  );
}
