// A small site for the tests of the storage, and helpers around it.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import type { Change, GitHubError, Save, Storage } from '../../src/server/index.js';
import { StorageError, type GitHubOptions, githubStorage } from '../../src/server/index.js';
import { FakeGitHub, NAME, TOKEN } from './fake-github.js';

export const NOW = Date.parse('2026-01-05T10:20:30.456Z');
export const ADA = { name: 'Ada Lovelace', email: 'ada@acme.example' };
export const HOME = '{ "path": "/", "title": "Zelte für \u{1f3d5}" }\n';
export const SITE: Record<string, string> = {
  'site.json': '{"site":"demo"}\r\n',
  'audiences.json': '{}',
  'routes/index.json': HOME,
  'routes/shop/[item].json': '{"path":"/shop/:item"}\n',
  'content/articles.json': '{"items":[]}\n',
  'tests/front.json': '[]',
};
export const OTHER: Record<string, string> = {
  'README.md': '# Site\n',
  'package.json': '{}',
  'routes/notes.md': 'no',
  'routes/.draft.json': '{}',
  'routes/.schema/a.json': '{}',
  'src/routes/index.json': '{}',
  'sites.json': '{}',
};

export const etagOf = (text: string): string => createHash('sha256').update(text).digest('hex');
export const change = (path: string, text: string | null, before: string | null): Change => ({
  path,
  text,
  etag: before === null ? null : etagOf(before),
});
export const edit = (text: string): Change => change('routes/index.json', text, HOME);
export const saveOf = (...changes: Change[]): Save => ({ base: 'unknown', changes, message: 'Change the home page', author: ADA });

export function storageOf(github: FakeGitHub, options: Partial<GitHubOptions> = {}): Required<Omit<Storage, 'publish'>> {
  return githubStorage({ repository: NAME, token: TOKEN, apiUrl: github.url, now: () => NOW, ...options }) as Required<Omit<Storage, 'publish'>>;
}

export async function githubWith(files: Record<string, string | Uint8Array> = { ...SITE, ...OTHER }): Promise<FakeGitHub> {
  const github = await new FakeGitHub().start();
  github.commit(files);
  return github;
}

/** Returns the error of a promise, without a token. */
export async function failure(promise: Promise<unknown>): Promise<GitHubError> {
  const error = await promise.then(
    (value) => assert.fail(`no error but ${JSON.stringify(value).slice(0, 200)}`),
    (reason) => reason,
  );
  assert.ok(error instanceof StorageError, String(error?.stack));
  assert.ok(!JSON.stringify([error.message, error.stack, error, String((error as Error).cause)]).includes(TOKEN), 'no token in the error');
  return error as GitHubError;
}

/** Asserts that the repository is valid, and that each branch of the composer has a pull request that is open or merged. */
export function assertConsistent(github: FakeGitHub, leftovers = 0): void {
  github.git('fsck', '--strict', '--full', '--no-dangling');
  assert.deepEqual(github.violations, []);
  const open = github.pulls.filter(({ state }) => state === 'open');
  const branches = github.branches();
  for (const { head, sha } of open) assert.equal(branches[head], sha);
  const alive = github.pulls.filter(({ state, mergedAt }) => state === 'open' || mergedAt);
  const without = Object.keys(branches).filter((name) => name.startsWith('composer/') && !alive.some(({ head }) => head === name));
  assert.equal(without.length, leftovers, `branches without a pull request: ${without}`);
}

export function isMutation({ method }: { method: string }): boolean {
  return method !== 'GET';
}
