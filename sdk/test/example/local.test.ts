// The example with decisions in the process of its proxy. PARALLAX_LONG=1 adds sign-outs, publications and failures.
import { after, before, describe } from 'node:test';
import { attackCases } from './attacks.js';
import { consentCases } from './consent.js';
import { eventCases } from './events.js';
import { failureCases } from './failure.js';
import { firstViewCases } from './first-view.js';
import { localCases } from './local.js';
import { publishingCases } from './publishing.js';
import { signOutCases } from './sign-out.js';
import { EXAMPLE, type Site, startSite } from './site.js';

describe('the example with local decisions', () => {
  let site: Site;
  before(async () => {
    site = await startSite(EXAMPLE, true);
  });
  after(() => {
    if (process.env.SITE_LOG) console.log(site?.log());
    return site?.stop();
  });
  const current = () => site;
  firstViewCases(current);
  eventCases(current);
  consentCases(current);
  attackCases(current);
  localCases(current);
  if (process.env.PARALLAX_LONG) {
    signOutCases(current);
    publishingCases(current);
    failureCases(current);
  }
});
