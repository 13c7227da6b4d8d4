// The order of decisions: in process, the hand-over, Edge, a marked token, the baseline.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Client } from '../../src/client.js';
import { type LocalDecisions, createDecide } from '../../src/decide.js';
import { ParallaxError } from '../../src/errors.js';
import type { ApiResponse, Decision, RequestOptions, VisitorPast } from '../../src/types.js';

const decision = (variants: string): ApiResponse<Decision> => ({
  data: { type: 'decision', site: 'acme', route: '/', variants, selected: {}, experiments: '' },
  version: '1',
  tags: [],
  requestId: null,
});

/** A client that decides by the token, with rules for a new visitor and for the tokens `good` and `of-the-receipt`. */
function clientOf(edge: { fails: boolean }) {
  const calls: string[] = [];
  const isReadable = ({ isNew, token, isStale }: VisitorPast, isLast?: boolean) => isNew || (/^(good|of-the-receipt)$/.test(token ?? '') && (!isStale || isLast));
  const local: LocalDecisions = {
    decideLocally(_route, _visitor, request: RequestOptions = {}, isLast) {
      calls.push(isLast ? 'last' : 'local');
      return isReadable(request.past!, isLast) ? decision(`hero:${request.past!.token ?? 'new'}`) : null;
    },
    async decideAtEdge() {
      calls.push('edge');
      if (edge.fails) throw new ParallaxError('network', 'down');
      return { ...decision('hero:edge'), visitorToken: 'of-edge' };
    },
  };
  return { calls, client: { ...local, variants: () => assert.fail('without a token') } as unknown as Client };
}

const KNOWN = { isNew: false, token: null, isStale: false };
const FRESH = { isNew: false, token: 'good', isStale: false };
const STALE = { isNew: false, token: 'good', isStale: true };
const FORGED = { isNew: false, token: 'forged', isStale: true };

const CASES: [string, VisitorPast, boolean, string, string[]][] = [
  ['a new visitor is decided in process', { isNew: true, token: null, isStale: false }, false, 'hero:new', ['local']],
  ['a token without a mark decides in process', FRESH, false, 'hero:good', ['local']],
  ['with a marked token, Edge decides', STALE, false, 'hero:edge', ['local', 'edge']],
  ['if Edge fails, a marked token decides', STALE, true, 'hero:good', ['local', 'edge', 'last']],
  ['without a token, Edge decides', KNOWN, false, 'hero:edge', ['local', 'edge']],
  ['if Edge fails, a visitor without a token gets the baseline', KNOWN, true, '', ['local', 'edge', 'last']],
  ['if Edge fails, a visitor with a forged token gets the baseline', FORGED, true, '', ['local', 'edge', 'last']],
];
for (const [name, past, fails, variants, steps] of CASES) {
  test(name, async () => {
    const { client, calls } = clientOf({ fails });
    const choice = await createDecide(client)('/', { anonId: 'v1' }, { past });
    assert.deepEqual([choice.variants, calls, choice.error?.code], [variants, steps, fails && !variants ? 'network' : undefined]);
    assert.equal(choice.visitorToken, variants === 'hero:edge' ? 'of-edge' : undefined);
  });
}

test('the token of a hand-over decides in process, is kept, and no other call follows', async () => {
  const { client, calls } = clientOf({ fails: true });
  const choice = await createDecide(client)('/', { anonId: 'v1' }, { past: STALE }, async () => 'of-the-receipt');
  assert.deepEqual([choice.variants, choice.visitorToken, calls], ['hero:of-the-receipt', 'of-the-receipt', ['local', 'local']]);
});

test('a hand-over without a token asks Edge', async () => {
  const { client, calls } = clientOf({ fails: false });
  const choice = await createDecide(client)('/', { anonId: 'v1' }, { past: STALE }, async () => null);
  assert.deepEqual([choice.variants, calls], ['hero:edge', ['local', 'edge']]);
});

test('while the breaker is open, a token decides in process, and a marked one too', async () => {
  const { client, calls } = clientOf({ fails: true });
  const decide = createDecide(client);
  for (let i = 0; i < 3; i++) await decide('/', { anonId: 'v1' }, { past: KNOWN });
  calls.length = 0;
  assert.equal((await decide('/', { anonId: 'v1' }, { past: FRESH })).variants, 'hero:good');
  assert.equal((await decide('/', { anonId: 'v1' }, { past: STALE })).variants, 'hero:good');
  const { variants, error } = await decide('/', { anonId: 'v1' }, { past: KNOWN });
  assert.deepEqual([variants, error, calls], ['', null, ['local', 'local', 'last', 'local', 'last']]);
});
