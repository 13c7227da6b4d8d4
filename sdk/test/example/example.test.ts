// The example in Chromium with a real server. One build serves all cases.
import { after, before, describe } from 'node:test';
import { attackCases } from './attacks.js';
import { composerCases } from './composer.js';
import { consentCases } from './consent.js';
import { eventCases } from './events.js';
import { failureCases } from './failure.js';
import { firstViewCases } from './first-view.js';
import { publishingCases } from './publishing.js';
import { signOutCases } from './sign-out.js';
import { type Site, startSite } from './site.js';

describe('the example', () => {
  let site: Site;
  before(async () => {
    site = await startSite();
  });
  after(() => {
    if (process.env.SITE_LOG) console.log(site?.log());
    return site?.stop();
  });
  const current = () => site;
  firstViewCases(current);
  eventCases(current);
  signOutCases(current);
  consentCases(current);
  attackCases(current);
  publishingCases(current);
  failureCases(current);
  composerCases(current);
});
