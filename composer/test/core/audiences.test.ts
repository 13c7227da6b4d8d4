import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Json, keyFromName, usesOfAudiences } from '../../src/core/index.js';
import { lint } from './program.js';
import { DEMO, filesOf } from './sites.js';

test('a key has the letters and digits of the name, and nothing else has it', () => {
  const none = () => false;
  const cases: [string, string][] = [
    ['Returning visitors', 'returning-visitors'],
    ['  Élan – 20 %! ', 'elan-20'],
    ['__proto__', 'proto'],
    ['日本', 'audience'],
    ['', 'audience'],
  ];
  for (const [name, key] of cases) assert.equal(keyFromName(name, 'audience', none), key);
  const taken = ['a', 'a-2'];
  assert.equal(keyFromName('A', 'audience', (key) => taken.includes(key)), 'a-3');
  for (const length of [63, 64, 65]) assert.equal(keyFromName('x'.repeat(length), 'audience', none), 'x'.repeat(Math.min(length, 64)));
  assert.equal(keyFromName('x'.repeat(65), 'audience', (key) => !key.endsWith('-2')), `${'x'.repeat(62)}-2`);
  assert.equal(keyFromName(`${'x'.repeat(63)} y`, 'audience', none), 'x'.repeat(63));
});

test('the uses of an audience are the places that the program names when it is gone', () => {
  const files = filesOf(DEMO);
  const uses = usesOfAudiences(files);
  const audiences = files['audiences.json'] as Record<string, Json>;
  for (const key of Object.keys(audiences)) {
    const { [key]: _, ...others } = audiences;
    const { errors } = lint({ ...files, 'audiences.json': others });
    const found = uses.get(key) ?? [];
    const isOf = (file: string, pointer: string) => (use: { file: string; pointer: string }) => use.file === file && `${pointer}/`.startsWith(`${use.pointer}/`);
    for (const { file, pointer } of errors) assert.ok(found.some(isOf(file, pointer)), `${key}: ${file}${pointer}`);
    for (const use of found) assert.ok(errors.some(({ file, pointer }) => isOf(file, pointer)(use)), `${key}: ${use.file}${use.pointer}`);
    assert.equal(errors.length > 0, found.length > 0);
  }
  assert.ok(uses.get('returning')!.length > 1);
});

test('uses are found in the conditions of experiments and of groups, and a file of another form has none', () => {
  const when: Json = { $or: [{ country: 'NO' }, { $not: { $audience: 'a' } }] };
  const zone: Json = { default: [], variants: {}, rules: [{ experiment: { key: 'x', variants: ['default'] }, when }, null, { audience: 'b', variant: 'v' }] };
  const files: Record<string, Json> = {
    'routes/a.json': { path: '/a', layout: { root: {}, zones: { hero: zone } } },
    'routes/b.json': [],
    'audiences.json': { b: { when }, $schema: 'x', c: null },
  };
  const uses = usesOfAudiences(files);
  assert.deepEqual(uses.get('a'), [
    { file: 'routes/a.json', pointer: '/layout/zones/hero/rules/0', place: { path: '/a', zone: 'hero' } },
    { file: 'audiences.json', pointer: '/b', place: { audience: 'b' } },
  ]);
  assert.deepEqual(uses.get('b')!.map(({ pointer }) => pointer), ['/layout/zones/hero/rules/2']);
  const deep = JSON.parse(`${'{"$not":'.repeat(5000)}{"$audience":"deep"}${'}'.repeat(5000)}`) as Json;
  assert.equal(usesOfAudiences({ 'audiences.json': { d: { when: deep } } }).get('deep')!.length, 1);
});
