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

/** Reviewers whose links no longer begin a preview. */
export const closedReviewers = process.env.CLOSED_REVIEWERS?.split(',') ?? [];

/** Where the proxy decides: in its own process, or in Edge. The build and the server need the same value. */
export const decide = process.env.DECIDE === 'local' ? 'local' : 'edge';

/** The deadline of a decision, and that of a page that was never rendered. Absent: those of the SDK. */
export const timeoutMs = Number(process.env.DECISION_MS) || undefined;

/** A visitor who has not answered the banner is not measured and not recognized. */
export const consentDefault = 'denied';
