// Publications and previews of a site on GitHub.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { composerHandler } from '../../src/server/index.js';
import { ADA, HOME, SITE, assertConsistent, edit, failure, githubWith, saveOf, storageOf } from './site.js';

test('a publication names the proposal that the CI publishes after the merge, and then the commit', async (t) => {
  const github = await githubWith();
  t.after(() => github.stop());
  const storage = storageOf(github) as Required<ReturnType<typeof storageOf>> & { publish(revision: string): Promise<{ status: string; url?: string }> };
  const { revision } = await storage.list();
  const present = await storage.publish(revision);
  assert.match(present.status, /^Your CI publishes the branch \S+ after each merge\.$/);
  assert.match(present.url!, /\/commit\//);
  const saved = (await storage.save(saveOf(edit('{ "path": "/", "title": "New" }')))) as { revision: string; url: string };
  assert.deepEqual(await storage.publish(saved.revision), { status: 'Your CI publishes these changes after the merge of the proposal.', url: saved.url });
  assert.equal((await failure(storage.publish('a'.repeat(40)))).code, 'revision_changed');
  assert.deepEqual([github.pulls.length, Object.keys(github.branches()).length], [1, 2], 'a publication changes nothing');
  assertConsistent(github);
});

test('a link shows the page of a proposal before its merge', async (t) => {
  const github = await githubWith();
  t.after(() => github.stop());
  const storage = storageOf(github);
  const text = '{ "path": "/", "title": "Proposed" }';
  const saved = (await storage.save(saveOf(edit(text)))) as { revision: string };
  const handle = composerHandler({ storage, authorize: async () => ({ user: ADA, roles: ['edit'] }), previewSecret: 'a secret of the previews, for tests' });
  const send = async (body?: object, headers: Record<string, string> = {}) => {
    const init = body ? { method: 'POST', body: JSON.stringify(body), headers: { origin: 'https://a.example', 'content-type': 'application/json' } } : { headers };
    return (await (await handle(new Request('https://a.example/preview', init))).json()) as Record<string, string>;
  };
  const seen = async (revision: string) => (await send(undefined, { 'x-preview': (await send({ revision, page: 'routes/index.json' })).url!.split('=')[1]! })).text;
  assert.equal(await seen(saved.revision), text);
  assert.equal(await seen((await storage.list()).revision), HOME);
  assert.equal(SITE['routes/index.json'], HOME);
});
