import { GitHubError } from './errors.js';

/** Returns the member at a place of an answer, or undefined. */
export function valueAt(answer: unknown, ...names: string[]): unknown {
  return names.reduce<unknown>((value, name) => (value as Record<string, unknown> | null | undefined)?.[name], answer);
}

export function textAt(answer: unknown, ...names: string[]): string {
  const value = valueAt(answer, ...names);
  if (typeof value !== 'string') throw bad(names, 'a text');
  return value;
}

/** Returns a SHA-1 of git. It becomes a part of URLs. */
export function shaAt(answer: unknown, ...names: string[]): string {
  const value = valueAt(answer, ...names);
  if (typeof value !== 'string' || !/^[0-9a-f]{40}$/.test(value)) throw bad(names, 'a SHA-1');
  return value;
}

/** Returns a web address. It becomes a link in the editor. */
export function urlAt(answer: unknown, ...names: string[]): string {
  const value = valueAt(answer, ...names);
  if (typeof value !== 'string' || !/^https?:\/\//.test(value)) throw bad(names, 'a web address');
  return value;
}

export function listAt(answer: unknown, ...names: string[]): unknown[] {
  const value = valueAt(answer, ...names);
  if (!Array.isArray(value)) throw bad(names, 'a list');
  return value;
}

function bad(names: string[], wanted: string): GitHubError {
  return new GitHubError('bad_answer', `An answer of GitHub lacks ${wanted} at "${names.join('.')}". Check the URL of the API.`);
}
