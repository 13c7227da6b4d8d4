import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Site, get, until } from './site.js';

const german = { 'accept-language': 'de', cookie: 'px_consent=1; anon_id=a-german-visitor' };
const BASELINE = 'Made for the third day of rain';
const GERMAN = 'Gemacht für den dritten Regentag';

export function failureCases(site: () => Site): void {
  // The breaker is before the decisions. A page that is rendered again asks for its content without it.
  const decided = () => site().gateway.requests.filter((request) => request.includes('/v1/variants')).length;
  const recovers = () => until(async () => (await get(site(), '/', german)).heading === GERMAN);

  for (const [how, mode] of [['killed', 'refuse'], ['silent', 'silent']] as const) {
    test(`an Edge that is ${how} gives the baseline, and after 3 failures no request reaches it for 2 s`, async () => {
      await recovers();
      site().gateway.set(mode);
      const begin = Date.now();
      for (let i = 0; i < 3; i++) assert.equal((await get(site(), '/', german)).heading, BASELINE);
      const count = decided();
      let pages = 0;
      for (const endsAt = Date.now() + 1500; Date.now() < endsAt; pages++) {
        const page = await get(site(), '/', german);
        assert.deepEqual([page.status, page.heading], [200, BASELINE]);
      }
      assert.equal(decided(), count, `${pages} pages, ${Date.now() - begin} ms`);
      assert.equal((await get(site(), '/sleep?x=1')).status, 308);
      assert.equal((await get(site(), '/nothing/here')).status, 404);
      site().gateway.set('open');
      await recovers();
    });
  }
}
