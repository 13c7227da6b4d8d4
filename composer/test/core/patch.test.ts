import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type Json, PatchError, patch } from '../../src/core/index.js';
import { DEMO, examplesOf } from './texts.js';

/** Patches a text with its own value after a change. */
function edit(text: string, change: (value: any) => unknown): string {
  const value = JSON.parse(text);
  change(value);
  const after = patch(text, value);
  assert.deepEqual(JSON.parse(after), value);
  return after;
}

const refusal = (call: () => unknown): PatchError => {
  try {
    call();
  } catch (error) {
    assert.ok(error instanceof PatchError);
    assert.equal(error.name, 'PatchError');
    return error;
  }
  throw new Error('the call was not refused');
};

const nested = (depth: number, inside = ''): string => '['.repeat(depth) + inside + ']'.repeat(depth);

describe('an unchanged value', () => {
  test('leaves each file of the demo site and of the documentation as it is', () => {
    const texts = [...Object.values(DEMO), ...examplesOf('authoring.md')];
    assert.ok(texts.length > 50);
    for (const text of texts) assert.equal(patch(text, JSON.parse(text)), text);
  });

  test('leaves unusual spellings, white space and line ends as they are', () => {
    const texts = ['1', ' null\n', '[]', '[ ]\r\n', '{ \t}', '"\\u0041\\/"', '{"a":1.0e+2 ,\r\n\r\n"b" : [ 1 ,2],"a":-0}', '\n\n[1e400,\r2]\n\n'];
    for (const text of texts) assert.equal(patch(text, JSON.parse(text)), text);
  });
});

describe('the text around a change', () => {
  test('keeps number spellings, blank lines, tabs and a missing final newline', () => {
    const text = '{\n\t"a": 6490.00,\n\n\t"b": 1E2,\n\t"c": "x"\n}';
    assert.equal(edit(text, (value) => (value.c = 'y')), text.replace('"x"', '"y"'));
    assert.equal(edit(text, (value) => (value.d = [])), text.replace('"x"', '"x",\n\t"d": []'));
    assert.equal(edit(text, (value) => delete value.b), '{\n\t"a": 6490.00,\n\n\t"c": "x"\n}');
    assert.equal(edit(text, (value) => delete value.a), '{\n\t"b": 1E2,\n\t"c": "x"\n}');
  });

  test('keeps the line ends of Windows, also in new lines', () => {
    const text = '{\r\n  "list": [\r\n    { "id": "a" }\r\n  ]\r\n}\r\n';
    assert.equal(edit(text, ({ list }) => list.push({ id: 'b' })), text.replace('{ "id": "a" }', '{ "id": "a" },\r\n    { "id": "b" }'));
    const long = { id: 'b', text: 'x'.repeat(140) };
    assert.ok(!/[^\r]\n/.test(edit(text, ({ list }) => list.push(long))));
  });

  test('keeps minified text on one line', () => {
    const text = JSON.stringify({ list: Array.from({ length: 30 }, (_, i) => ({ id: `${i}`, on: true })) });
    const after = edit(text, ({ list }) => list.push({ id: 'new', inner: { a: [1, 2] } }));
    assert.equal(after, text.replace(']}', ',{"id":"new","inner":{"a":[1,2]}}]}'));
  });

  test('does not indent the lines of untouched items', () => {
    const text = `{\n  "list": [{\n    "a": "${'x'.repeat(150)}"\n  }]\n}`;
    assert.equal(edit(text, ({ list }) => list.push({ b: 1 })), text.replace('}]', '}, {\n    "b": 1\n  }]'));
  });

  test('keeps commas at the beginnings of lines', () => {
    const text = '{ "a": 1\n, "b": 2\n}';
    assert.equal(edit(text, (value) => (value.c = 3)), '{ "a": 1\n, "b": 2\n, "c": 3\n}');
  });

  test('keeps the order of members, and gives a new one the place of its neighbours in the value', () => {
    const text = '{ "b": 1, "a": 2 }';
    assert.equal(patch(text, { a: 2, c: 3, b: 1 }), '{ "b": 1, "a": 2, "c": 3 }');
    assert.equal(patch(text, { z: 0, b: 1, a: 2 }), '{ "z": 0, "b": 1, "a": 2 }');
  });

  test('expands new values in a file without values on one line', () => {
    const value = { list: [{ id: 'a', n: [1] }] };
    const more = { list: [...value.list, { id: 'b', n: [2] }], map: { x: {} } };
    assert.equal(patch(JSON.stringify(value, null, 3), more), JSON.stringify(more, null, 3));
  });
});

describe('moved and copied values', () => {
  test('an item of another list keeps its text, also if it is changed', () => {
    const text = '{\n  "a": [\n    {\n      "id": "x", "price": 5.00,\n      "text": "\\u00a0"\n    }\n  ],\n  "b": { "c": [] }\n}';
    const after = edit(text, (value) => {
      value.b.c.push({ ...value.a.pop(), on: true });
    });
    assert.match(after, /"id": "x", "price": 5\.00,\n +"text": "\\u00a0",\n +"on": true/);
  });

  test('a copy with other IDs keeps its text', () => {
    const text = '[\n  { "id": "a", "props": { "price": 5.00 } }\n]';
    assert.equal(edit(text, (list) => list.push({ id: 'b', props: { price: 5 } })), text.replace('\n]', ',\n  { "id": "b", "props": { "price": 5.00 } }\n]'));
  });

  test('an item of a list without IDs keeps its text when another one moves, is inserted or changes', () => {
    const text = '[ { "n": 1.0 }, { "n": 2.0, "m": 0 }, { "n": 3.0 } ]';
    assert.equal(edit(text, (list) => list.reverse()), '[ { "n": 3.0 }, { "n": 2.0, "m": 0 }, { "n": 1.0 } ]');
    assert.equal(edit('[1.0, 2.0, 3.0]', (list) => list.reverse()), '[3.0, 2.0, 1.0]');
    assert.equal(edit(text, (list) => list.splice(1, 0, { n: 9 })), '[ { "n": 1.0 }, { "n": 9 }, { "n": 2.0, "m": 0 }, { "n": 3.0 } ]');
    assert.equal(edit(text, (list) => ((list[1].m = 1), list.shift())), '[ { "n": 2.0, "m": 1 }, { "n": 3.0 } ]');
  });
});

describe('values that need care', () => {
  test('a member named __proto__ is a member', () => {
    const text = '{ "__proto__": { "a": 1.0 }, "b": {} }';
    assert.equal(patch(text, JSON.parse('{ "__proto__": { "a": 1 }, "b": { "__proto__": 2 } }')), '{ "__proto__": { "a": 1.0 }, "b": { "__proto__": 2 } }');
    assert.equal(patch(text, { b: {} }), '{ "b": {} }');
    assert.equal(patch('{}', JSON.parse('{ "__proto__": null }')), '{ "__proto__": null }');
  });

  test('of a doubled name the last value is changed, and all are removed', () => {
    const text = '{ "a": 1, "b": 2, "a": 3 }';
    assert.equal(patch(text, { a: 4, b: 2 }), '{ "a": 1, "b": 2, "a": 4 }');
    assert.equal(patch(text, { a: 3, b: 5 }), '{ "a": 1, "b": 5, "a": 3 }');
    assert.equal(patch(text, { b: 2 }), '{ "b": 2 }');
  });

  test('-0, large numbers and lone surrogates are not lost', () => {
    assert.equal(patch('[0]', [-0]), '[-0]');
    assert.equal(patch('[-0.0]', [0]), '[0]');
    assert.equal(patch('[1]', [1e21, 5e-324, 0.1]), '[1e+21, 5e-324, 0.1]');
    assert.equal(edit('{ "a": 12345678901234567890 }', (value) => (value.b = [value.a])), '{ "a": 12345678901234567890, "b": [12345678901234567890] }');
    assert.equal(edit('[1e400]', (list) => list.unshift({ is: list[0] })), '[{ "is": 1e400 }, 1e400]');
    assert.equal(patch('["a"]', ['\ud800', '\udc00\ud800']), '["\\ud800", "\\udc00\\ud800"]');
    assert.equal(patch('["\\ud83d\\ude00"]', ['\ud83d\ude01']), '["\ud83d\ude01"]');
  });

  test('a changed string keeps the escapes that its characters always had', () => {
    assert.equal(patch('"10\\u00a0% caf\\u00e9 \\/ é"', '20\u00a0% café / é'), '"20\\u00a0% café \\/ é"');
  });

  test('a member that is undefined is absent', () => {
    assert.equal(patch('{ "a": 1, "b": 2 }', { a: undefined, b: 2 } as unknown as Json), '{ "b": 2 }');
    assert.equal(patch('{ "b": 2.0 }', { a: undefined, b: 2 } as unknown as Json), '{ "b": 2.0 }');
  });

  test('large lists take no quadratic time', { timeout: 20_000 }, () => {
    const items = Array.from({ length: 50_000 }, (_, i) => i % 1000);
    const changed = [...items].reverse().map((item, i) => (i % 3 === 0 ? -item - 1 : item));
    assert.deepEqual(JSON.parse(patch(JSON.stringify(items), changed)), changed);
    const objects = items.map((n, i) => ({ id: `${i}`, n }));
    const moved = [...objects.slice(20_000), ...objects.slice(0, 20_000)];
    assert.deepEqual(JSON.parse(patch(JSON.stringify(objects, null, 1), moved)), moved);
    const equal = Array.from({ length: 20_000 }, () => 1);
    assert.deepEqual(JSON.parse(patch(JSON.stringify([2, ...equal, 3]), [4, ...equal, 1, 5])), [4, ...equal, 1, 5]);
  });
});

describe('a PatchError', () => {
  test('has the offset of the first fault of a text', () => {
    const faults: [string, number][] = [['', 0], ['{"a":1,}', 7], ['{"a" 1}', 5], ['[1] x', 4], ['\ufeff{}', 0], ['[// c\n1]', 1], ['["\n"]', 1], ['[\u00a01]', 1]];
    for (const [text, offset] of faults) assert.equal(refusal(() => patch(text, 1)).offset, offset, JSON.stringify(text));
  });

  test('refuses a text or a value of 128 levels, not one of 126 or 127', () => {
    for (const depth of [126, 127]) {
      const value = JSON.parse(nested(depth, '2'));
      assert.equal(patch(nested(depth, '1'), value), nested(depth, '2'));
      assert.deepEqual(JSON.parse(patch('{}', value)), value);
    }
    assert.equal(refusal(() => patch(nested(128), 1)).offset, 127);
    assert.match(refusal(() => patch('1', JSON.parse(nested(128)))).message, /nested deeper than 127 levels/);
    assert.equal(refusal(() => patch(nested(1_000_000), 1)).offset, 127);
    for (const text of [nested(200), `"${nested(200)}`, `\\${nested(200)}`]) assert.equal(patch(JSON.stringify(text), text), JSON.stringify(text));
  });

  test('refuses a value that JSON cannot have, with its place', () => {
    const cases: [unknown, string][] = [[{ a: [NaN] }, '/a/0'], [[undefined], '/0'], [{ 'x/y~': () => 1 }, '/x~1y~0'], [[1n], '/0'], [Symbol(), '']];
    for (const [value, pointer] of cases) assert.equal(refusal(() => patch('[1]', value as Json)).pointer, pointer);
    assert.match(refusal(() => patch('[1]', [Infinity])).message, /Infinity/);
    const circle: Json[] = [];
    circle.push(circle);
    assert.match(refusal(() => patch('[1]', circle)).message, /nested deeper/);
  });
});
