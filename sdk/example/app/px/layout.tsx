import { cacheLife } from 'next/cache';
import type { ReactNode } from 'react';
import { ConsentBanner } from '../../components/consent';
import { SiteEvents } from '../../components/events';
import { Frame } from '../../components/frame';
import { client, consentDefault, decide, site } from '../../parallax';

/** The name of the ID cookie and the privacy policy of the site. They change with a build: a shorter life would be that of every page. */
async function settings() {
  'use cache';
  cacheLife('max');
  const { cookie, privacy } = (await client.site()).data;
  return { cookie, honorGpc: privacy.honorGpc };
}

/** The pages that Parallax publishes. The composer is outside, so that it sends no events. */
export default async function ShopLayout({ children }: { children: ReactNode }) {
  return (
    <SiteEvents
      eventsUrl={site.edgeUrl}
      trackingId={site.trackingId}
      {...await settings()}
      consentDefault={consentDefault}
      visitorToken={decide === 'local'}
      dev="send"
    >
      <Frame>{children}</Frame>
      <ConsentBanner />
    </SiteEvents>
  );
}
