import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fromSegments, toSegments, wellFormed } from '../../src/combination.js';

const zones = (n: number, length: number) => Array.from({ length: n }, (_, i) => `${String(i).padStart(length, 'z')}:${'k'.repeat(length)}`).join(',');

for (const variants of ['', 'hero:a', 'a:b,c:d', zones(64, 10), zones(15, 64)]) {
  test(`a combination of ${variants.length} bytes survives the round trip`, () => {
    const segments = toSegments(variants);
    assert.deepEqual(fromSegments([...segments, 'products', 'x%20y']), { variants, path: '/products/x y' });
    assert.deepEqual(fromSegments(segments), { variants, path: '/' });
    for (const segment of segments) assert.match(segment, /^[A-Za-z0-9_!~-]{1,200}$/);
  });
}

test('an invalid escape in a path stays as it is', () => {
  assert.equal(fromSegments(['-', '%zz']).path, '/%zz');
});

test('a text without the grammar of a combination becomes the baseline', () => {
  assert.equal(wellFormed('hero:a,promo:b'), 'hero:a,promo:b');
  const bad = ['../../api/parallax/revalidate', 'hero', 'hero:a,hero:b', 'hero:a,', 'h.ero:a', `${'z'.repeat(65)}:a`, zones(65, 3), null];
  for (const text of bad) assert.equal(wellFormed(text), '');
});
