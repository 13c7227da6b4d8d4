// The forms of conditions, as the tests of this folder make them.
import assert from 'node:assert/strict';
import type { Form, Json, Scalar, Vocabulary } from '../../src/core/index.js';
import { fromForm, problems, toForm, words } from '../../src/core/index.js';
import type { Dice } from './dice.js';
import { VOCABULARY } from './vocabulary.js';

/** Returns the form of a condition. It is exact, or null. */
export function exactForm(condition: Json, vocabulary: Vocabulary = VOCABULARY, message?: string): Form | null {
  const text = JSON.stringify(condition);
  const form = toForm(condition, vocabulary);
  if (form) assert.equal(JSON.stringify(fromForm(form)), text, message);
  assert.equal(JSON.stringify(condition), text, 'the condition is not changed itself');
  return form;
}
export const formOf = (condition: Json) => exactForm(condition) ?? assert.fail(`${JSON.stringify(condition)} has no form`);
export const sentence = (condition: Json) => words(formOf(condition), VOCABULARY);
export const textsOf = (condition: Json) => problems(formOf(condition), VOCABULARY).map(({ text }) => text);

export const TEXTS = ['a', '', 'NO', '2026-12-01', '{"a":1}', '$x', '__proto__', 'é', '7'];
export const scalar = (dice: Dice): Scalar => dice.pick<Scalar>([...TEXTS, 0, 1, -1.5, 1e21, true, false, null]);
