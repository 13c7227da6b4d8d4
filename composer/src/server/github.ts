import { authorOf, byteLength, checkSave } from './check.js';
import { StorageError } from './errors.js';
import { listAt, shaAt, textAt, urlAt, valueAt } from './github/answers.js';
import { CALL_MS, type Call, createApi } from './github/api.js';
import { GitHubError } from './github/errors.js';
import { createProposals } from './github/proposals.js';
import { BOUNDS, COMMITS_MAX, type Entry, type Head, checkEntries, createRepository, isFile, siteFiles, unlessMissing } from './github/repository.js';
import { HISTORY_MAX } from './limits.js';
import type { Change, Conflict, Published, Revision, Save, Saved, SiteFile, Storage } from './storage.js';

export interface GitHubOptions {
  /** `owner/name`. */
  repository: string;
  /** The directory of the site in the repository. Default: its root. */
  directory?: string;
  /** A token that may read and write contents and pull requests, or a function that returns one, which is called for each request. */
  token: string | (() => Promise<string>);
  /** The branch of the site, to which pull requests go. Default: the default branch of the repository. */
  branch?: string;
  /** Default: `https://api.github.com`. That of a GitHub Enterprise Server ends with `/api/v3`. */
  apiUrl?: string;
  fetch?: typeof fetch;
  /** The time in milliseconds since 1970, for names of branches, dates of commits and rate limits. Default: `Date.now`. */
  now?: () => number;
}

/**
 * Stores a site in a repository on GitHub. A save is a pull request to the branch; the CI of the team publishes after the merge. So a listing
 * shows a save only after the merge, and two saves of one file from the same revision are two pull requests.
 */
export function githubStorage(options: GitHubOptions): Storage {
  const { repository, directory, apiUrl } = checked(options);
  const now = options.now ?? Date.now;
  const api = createApi({ repository, apiUrl, now, token: options.token, fetch: options.fetch ?? fetch });
  const reader = createRepository({ directory, branch: options.branch, now });
  const proposals = createProposals(api, now);
  const prefix = directory && `${directory}/`;

  async function entriesOf(call: Call, head: Head): Promise<Map<string, Entry>> {
    const entries = await reader.entries(call, head.tree);
    if (entries) return entries;
    throw new StorageError('no_directory', `The branch ${head.branch} has no directory ${directory}. Check the option "directory".`);
  }

  function list() {
    return api(CALL_MS, async (call) => {
      const head = await reader.head(call);
      const files = await reader.files(call, siteFiles(await entriesOf(call, head)));
      return { revision: head.commit, files };
    });
  }

  /** Returns the present state of each changed file that is not as the save expects. */
  function differences(present: Record<string, SiteFile>, changes: Change[]): Conflict['files'] {
    const different = changes.filter(({ path, etag }) => (present[path]?.etag ?? null) !== etag);
    return Object.fromEntries(different.map(({ path }) => [path, present[path] ?? null]));
  }

  async function save(save: Save): Promise<Saved | Conflict> {
    checkSave(save, BOUNDS);
    const earlier = await proposals.resume(save);
    if (earlier) return earlier;
    return api(CALL_MS, async (call) => {
      const head = await reader.head(call);
      const entries = await entriesOf(call, head);
      checkPlaces(entries, save.changes);
      const concerned = save.changes.flatMap(({ path }) => entries.get(path) ?? []);
      const present = await reader.files(call, concerned);
      const files = differences(present, save.changes);
      if (Object.keys(files).length) return { kind: 'conflict', revision: head.commit, files };
      const changes = save.changes.filter(({ path, text }) => text !== present[path]?.text);
      if (!changes.length) return { kind: 'saved', revision: head.commit };
      checkSizeAfter(entries, changes);
      return proposals.propose(call, head, await commit(call, head, entries, { ...save, changes }), save);
    });
  }

  /** Writes the objects of git. Each has the hash of its content as its name, so a repeated request changes nothing. */
  async function commit(call: Call, head: Head, entries: Map<string, Entry>, { changes, message, author }: Save): Promise<string> {
    const tree = changes.map(({ path, text }) => {
      const entry = { path: prefix + path, mode: entries.get(path)?.mode ?? '100644', type: 'blob' };
      return text === null ? { ...entry, sha: null } : { ...entry, content: text };
    });
    const written = await call.request('POST', { path: '/git/trees', body: { base_tree: head.tree, tree }, isRepeatable: true });
    // Without a committer GitHub takes the author, with the same date.
    const by = { ...authorOf(author), date: `${new Date(now()).toISOString().slice(0, 19)}Z` };
    const body = { message, tree: shaAt(written, 'sha'), parents: [head.commit], author: by };
    return shaAt(await call.request('POST', { path: '/git/commits', body, isRepeatable: true }), 'sha');
  }

  /** Returns the last commits of the branch that touch the directory, at most 200. */
  function history(limit: number): Promise<Revision[]> {
    return api(CALL_MS, async (call) => {
      const count = Math.min(Math.max(0, Math.trunc(limit) || 0), HISTORY_MAX);
      const { commit } = await reader.head(call);
      const revisions: Revision[] = [];
      for (let page = 1; revisions.length < count; page++) {
        const size = Math.min(count, COMMITS_MAX);
        const query = new URLSearchParams({ sha: commit, ...(directory && { path: directory }), per_page: `${size}`, page: `${page}` });
        const commits = listAt(await call.request('GET', { path: `/commits?${query}` }));
        revisions.push(...commits.map(revisionOf));
        if (commits.length < size) break;
      }
      return revisions.slice(0, count);
    });
  }

  function at(revision: string): Promise<Record<string, SiteFile>> {
    return api(CALL_MS, async (call) => {
      const isHash = /^[0-9a-f]{40}$/.test(revision);
      const found = isHash ? await unlessMissing(call.request('GET', { path: `/git/commits/${revision}` })) : null;
      if (!found) throw new StorageError('revision_not_found', `The repository has no revision ${JSON.stringify(revision.slice(0, 60))}.`);
      const entries = await reader.entries(call, shaAt(found, 'tree', 'sha'));
      return entries ? reader.files(call, siteFiles(entries)) : {};
    });
  }

  /** Says where the CI of the team publishes: the pull request of the revision, or the commit. */
  function publish(revision: string): Promise<Published> {
    return api(CALL_MS, async (call) => {
      const pulls = listAt(await call.request('GET', { path: `/pulls?state=open&per_page=${COMMITS_MAX}` }));
      const pull = pulls.find((one) => textAt(one, 'head', 'sha') === revision);
      if (pull) return { status: 'Your CI publishes these changes after the merge of the proposal.', url: urlAt(pull, 'html_url') };
      const { branch, commit } = await reader.head(call);
      if (commit !== revision) throw new StorageError('revision_changed', 'The files have changed since this revision; look at them, and publish again.');
      const [present] = listAt(await call.request('GET', { path: `/commits?sha=${commit}&per_page=1` }));
      return { status: `Your CI publishes the branch ${branch} after each merge.`, url: urlAt(present, 'html_url') };
    });
  }

  return { list, save, history, at, publish };
}

function checked({ repository, directory = '', branch, apiUrl = 'https://api.github.com' }: GitHubOptions) {
  const fail = (text: string) => new GitHubError('bad_option', text);
  const names = directory.replace(/^\/+|\/+$/g, '').split('/');
  const url = URL.canParse(apiUrl) ? new URL(apiUrl) : null;
  if (!/^[\w.-]+\/[\w.-]+$/.test(repository) || repository.split('/').some((name) => /^\.+$/.test(name))) {
    throw fail(`The option "repository" is ${JSON.stringify(repository)}; write "owner/name".`);
  }
  if (names.some((name) => /^\.{1,2}$/.test(name)) || (names.length > 1 && names.includes(''))) {
    throw fail(`The option "directory" is ${JSON.stringify(directory)}; write a path in the repository, such as "sites/shop".`);
  }
  if (branch === '') throw fail('The option "branch" is empty; leave it out for the default branch.');
  if (!url || !/^https?:$/.test(url.protocol) || url.username || url.password || url.search || url.hash) {
    throw fail('The option "apiUrl" is not the URL of an API, such as "https://github.example.com/api/v3".');
  }
  return { repository, directory: names.join('/'), apiUrl: apiUrl.replace(/\/+$/, '') };
}

/** Checks that no change takes the place of a directory, a link or a submodule, and none needs a directory in the place of a file. */
function checkPlaces(entries: Map<string, Entry>, changes: Change[]): void {
  for (const { path } of changes) {
    const present = entries.get(path);
    if (present && !isFile(present)) throw new StorageError('not_a_file', `${path} is no regular file in the repository.`);
    const names = path.split('/');
    const above = names.slice(1).map((_, n) => names.slice(0, n + 1).join('/'));
    const file = above.find((place) => entries.has(place) && entries.get(place)!.type !== 'tree');
    if (file) throw new StorageError('not_a_file', `${path} cannot exist, because ${file} is no directory in the repository.`);
  }
}

/** Checks that the site can be listed after the save. */
function checkSizeAfter(entries: Map<string, Entry>, changes: Change[]): void {
  const bytes = new Map(siteFiles(entries).map((entry) => [entry.path, entry.bytes]));
  for (const { path, text } of changes) {
    if (text === null) bytes.delete(path);
    else bytes.set(path, byteLength(text));
  }
  checkEntries([...bytes.values()]);
}

function revisionOf(commit: unknown): Revision {
  const author = valueAt(commit, 'commit', 'author', 'name');
  const time = valueAt(commit, 'commit', 'committer', 'date') ?? valueAt(commit, 'commit', 'author', 'date');
  const text = (value: unknown) => (typeof value === 'string' ? value : '');
  return { revision: shaAt(commit, 'sha'), message: textAt(commit, 'commit', 'message'), author: text(author), at: text(time) };
}
