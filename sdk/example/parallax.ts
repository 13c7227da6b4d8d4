import { createClient } from '@parallax/sdk';
import type { Site } from './site';

export const site = {
  edgeUrl: process.env.EDGE_URL ?? 'http://127.0.0.1:8080',
  trackingId: 'track_demo',
};
export const client = createClient<Site>(site);

/** The site that `parallax compile SITE_DIR --preview draft` publishes. */
export const previewClient = createClient<Site>({ ...site, trackingId: `${site.trackingId}--draft` });

/** This instance of the site, and the secret that its parts share. */
export const instance = { secret: process.env.SITE_SECRET, instanceUrl: process.env.SITE_SECRET && (process.env.SITE_URL ?? 'http://localhost:3000') };

/** Signs the cookie of a preview. Without it there are no previews. */
export const previewSecret = process.env.PREVIEW_SECRET;

/** A visitor who has not answered the banner is not measured and not recognized. */
export const consentDefault = 'denied';
