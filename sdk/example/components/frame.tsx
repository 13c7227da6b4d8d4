import Link from 'next/link';
import type { ReactNode } from 'react';

const SHELVES = [
  ['/tents', 'Tents'],
  ['/sleeping-bags', 'Sleeping bags'],
  ['/stoves', 'Stoves'],
  ['/packs', 'Packs'],
  ['/clothing', 'Clothing'],
  ['/magazine', 'Magazine'],
  ['/account/membership', 'Membership'],
] as const;

/** The head and the foot of each page of the shop. */
export function Frame({ children }: { children: ReactNode }) {
  return (
    <>
      <header className="top">
        <Link href="/" className="brand">
          <svg viewBox="0 0 32 20" aria-hidden="true">
            <path d="M1 19 11 4l6 8 4-5 10 12Z" fill="currentColor" />
          </svg>
          Fjell
        </Link>
        <nav aria-label="Shelves">
          {SHELVES.map(([href, name]) => (
            <Link key={href} href={href}>
              {name}
            </Link>
          ))}
        </nav>
      </header>
      {children}
      <footer className="bottom">
        <p>Fjell Outdoor Supply, Bergen. A demo site of Parallax.</p>
        <nav aria-label="Help">
          <Link href="/help">Help</Link>
          <Link href="/stores">Stores</Link>
          <Link href="/repairs">Repairs</Link>
          <Link href="/about">About</Link>
        </nav>
      </footer>
    </>
  );
}
