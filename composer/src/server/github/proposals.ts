import { authorOf } from '../check.js';
import type { Save, Saved } from '../storage.js';
import { listAt, shaAt, textAt, urlAt, valueAt } from './answers.js';
import { type Api, CLEANUP_MS, type Call, RETRIES_MAX } from './api.js';
import { GitHubError } from './errors.js';
import { type Head, hexHash, unlessMissing } from './repository.js';

/** Names that are tried for the branch of a save. A taken name needs two saves of a user in the same second. */
const BRANCH_NAMES_MAX = 5;
/** Characters of the user's part of the name of a branch. The rest of a longer name is left out. */
const USER_CHARS_MAX = 40;
/** Characters of the title of a pull request: the bound of GitHub is 256. */
const TITLE_CHARS_MAX = 200;
/** Branches of failed saves that could not be removed. At the limit the oldest is forgotten, and stays in the repository. */
const LEFTOVERS_MAX = 100;

/** A branch of a save whose pull request is not confirmed. */
interface Leftover {
  owner: string;
  branch: string;
  commit: string;
}

/** Makes a branch and a pull request from the commit of a save. */
export interface Proposals {
  /**
   * Ends the failed saves of before: removes their branches, or returns the result of the same save if its pull request exists after all.
   */
  resume(save: Save): Promise<Saved | null>;
  propose(call: Call, head: Head, commit: string, save: Save): Promise<Saved>;
}

/**
 * A save that fails after its branch was made looks for the pull request. If there is none, it removes the branch, which also closes a pull
 * request that GitHub makes late. Where that fails too, the branch is remembered, and the next save of this storage ends it. Git objects
 * without a branch are removed by GitHub.
 */
export function createProposals(api: Api, now: () => number): Proposals {
  const leftovers = new Map<string, Leftover>();

  async function resume(save: Save): Promise<Saved | null> {
    const key = await keyOf(save);
    const earlier = [...leftovers];
    leftovers.clear();
    const ended = await Promise.all(earlier.map(async ([of, leftover]) => ({ of, leftover, ...(await end(of, leftover)) })));
    const same = ended.find(({ of }) => of === key);
    if (same?.isLeft) throw unknown(same.leftover, 'GitHub does not answer whether it was done.');
    return same?.url ? { kind: 'saved', revision: same.leftover.commit, url: same.url } : null;
  }

  /** Finds the pull request, or removes the branch. Remembers a branch for which both fail. */
  async function end(key: string, leftover: Leftover): Promise<{ url?: string | null; isLeft?: boolean }> {
    try {
      return { url: await api(CLEANUP_MS, (call) => settle(call, leftover)) };
    } catch {
      leftovers.set(key, leftover);
      if (leftovers.size > LEFTOVERS_MAX) leftovers.delete(leftovers.keys().next().value!);
      return { isLeft: true };
    }
  }

  async function propose(call: Call, head: Head, commit: string, save: Save): Promise<Saved> {
    const names = branchNames(save.author.name, now());
    for (const branch of names) {
      const leftover = { owner: head.owner, branch, commit };
      try {
        if (!(await createBranch(call, leftover))) continue;
        return { kind: 'saved', revision: commit, url: await createPull(call, head.branch, leftover, save) };
      } catch (error) {
        return await failed(error, leftover, await keyOf(save));
      }
    }
    throw new GitHubError('refused', `The branch ${names[0]} and ${names.length - 1} further names are taken; save again.`);
  }

  /** Ends a failed save. Returns its result if the pull request exists after all, else throws. */
  async function failed(error: unknown, leftover: Leftover, key: string): Promise<Saved> {
    const { url, isLeft } = await end(key, leftover);
    if (url) return { kind: 'saved', revision: leftover.commit, url };
    if (!isLeft || !(error instanceof GitHubError)) throw error;
    if (error.isUnclear) throw unknown(leftover, error.message);
    throw new GitHubError(error.code, `${error.message} The branch ${leftover.branch} may remain; the next save removes it.`, error);
  }

  return { resume, propose };
}

function unknown({ branch }: Leftover, reason: string): GitHubError {
  return new GitHubError(
    'outcome_unknown',
    `It is not known whether the branch ${branch} and its pull request exist. ${reason} Save again to find out.`,
  );
}

/** Makes the branch. Returns false if another one has the name. */
async function createBranch(call: Call, leftover: Leftover): Promise<boolean> {
  const { branch, commit } = leftover;
  for (let n = 0; ; n++) {
    try {
      await call.request('POST', { path: '/git/refs', body: { ref: `refs/heads/${branch}`, sha: commit } });
      return true;
    } catch (error) {
      if (!(error instanceof GitHubError)) throw error;
      if (error.isUnclear && n < RETRIES_MAX) {
        await call.pause(n);
        continue;
      }
      if (error.status !== 422) throw error;
      const present = await commitOf(call, branch);
      if (present === null) throw error;
      // The branch is ours only if an earlier attempt may have made it. Another save may make the same commit in the same second.
      return n > 0 && present === commit;
    }
  }
}

/** Makes the pull request. Returns its URL. GitHub refuses a second one of the branch, so a repeated request makes no other. */
async function createPull(call: Call, base: string, { branch }: Leftover, { message, author }: Save): Promise<string> {
  const body = { title: titleOf(message), head: branch, base, body: `${message}\n\nSaved in the composer by ${authorOf(author).name}.` };
  return urlAt(await call.request('POST', { path: '/pulls', body, isRepeatable: true }), 'html_url');
}

/** Returns the URL of the pull request of a branch, or removes the branch and returns null. */
async function settle(call: Call, leftover: Leftover): Promise<string | null> {
  const url = await pullOf(call, leftover);
  if (url) return url;
  const present = await commitOf(call, leftover.branch);
  // A branch with another commit belongs to another save, or to a person.
  if (present !== leftover.commit) return null;
  await call.request('DELETE', { path: `/git/refs/heads/${leftover.branch}`, isRepeatable: true }).catch(async (error) => {
    if ((await commitOf(call, leftover.branch)) === leftover.commit) throw error;
  });
  return null;
}

/** Returns the URL of the pull request with this commit, or null. One that a person closed does not count. */
async function pullOf(call: Call, { owner, branch, commit }: Leftover): Promise<string | null> {
  const answer = await call.request('GET', { path: `/pulls?state=all&head=${encodeURIComponent(`${owner}:${branch}`)}` });
  const isOurs = (pull: unknown) => textAt(pull, 'head', 'ref') === branch && textAt(pull, 'head', 'sha') === commit;
  const isAlive = (pull: unknown) => valueAt(pull, 'state') === 'open' || typeof valueAt(pull, 'merged_at') === 'string';
  const found = listAt(answer).find((pull) => isOurs(pull) && isAlive(pull));
  return found ? urlAt(found, 'html_url') : null;
}

async function commitOf(call: Call, branch: string): Promise<string | null> {
  const answer = await unlessMissing(call.request('GET', { path: `/git/ref/heads/${branch}` }));
  return answer === null ? null : shaAt(answer, 'object', 'sha');
}

/** Returns the names to try: `composer/<user>-<time>`, then with a suffix by chance. */
function branchNames(user: string, time: number): string[] {
  const plain = user.normalize('NFKD').replace(/\p{M}/gu, '').toLowerCase();
  const safe =
    plain
      .replace(/[^a-z0-9]+/g, '-')
      .slice(0, USER_CHARS_MAX)
      .replace(/^-|-$/g, '') || 'user';
  const name = `composer/${safe}-${new Date(time).toISOString().slice(0, 19).replace(/[-:]/g, '').replace('T', '-')}`;
  const suffix = () => crypto.randomUUID().slice(0, 8);
  return Array.from({ length: BRANCH_NAMES_MAX }, (_, n) => (n ? `${name}-${suffix()}` : name));
}

function titleOf(message: string): string {
  const characters = [...message.trim().split('\n', 1)[0]!.trim()];
  return characters.length > TITLE_CHARS_MAX ? `${characters.slice(0, TITLE_CHARS_MAX - 1).join('')}…` : characters.join('');
}

/** Returns the identity of a save: a repeated one has the same. */
function keyOf({ base, changes, message, author }: Save): Promise<string> {
  const members = [base, message, author.name, author.email, changes.map(({ path, text, etag }) => [path, text, etag])];
  return hexHash('SHA-256', new TextEncoder().encode(JSON.stringify(members)));
}
