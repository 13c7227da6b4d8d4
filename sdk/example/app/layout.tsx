import { cacheLife } from 'next/cache';
import Link from 'next/link';
import type { Metadata } from 'next';
import type { ReactNode } from 'react';
import { ConsentBanner } from '../components/consent';
import { SiteEvents } from '../components/events';
import { client, consentDefault, decide, site } from '../parallax';
import './globals.css';
import './content.css';
import './shop.css';

export const metadata: Metadata = { title: { default: 'Fjell Outdoor Supply', template: '%s · Fjell' } };

const SHELVES = [
  ['/tents', 'Tents'],
  ['/sleeping-bags', 'Sleeping bags'],
  ['/stoves', 'Stoves'],
  ['/packs', 'Packs'],
  ['/clothing', 'Clothing'],
  ['/magazine', 'Magazine'],
  ['/account/membership', 'Membership'],
] as const;

/** The name of the ID cookie and the privacy policy of the site. They change with a build: a shorter life would be that of every page. */
async function settings() {
  'use cache';
  cacheLife('max');
  const { cookie, privacy } = (await client.site()).data;
  return { cookie, honorGpc: privacy.honorGpc };
}

export default async function RootLayout({ children }: { children: ReactNode }) {
  return (
    <html lang="en">
      <body>
        <SiteEvents
          eventsUrl={site.edgeUrl}
          trackingId={site.trackingId}
          {...await settings()}
          consentDefault={consentDefault}
          visitorToken={decide === 'local'}
          dev="send"
        >
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
          <ConsentBanner />
        </SiteEvents>
      </body>
    </html>
  );
}
