// GitHub for tests: its HTTP API over a bare git repository, so that races are those of git.
import { execFile, execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { type IncomingMessage, type Server, type ServerResponse, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { example, faultsOfExchange } from './openapi.js';

export const TOKEN = 'ghp_S3cretT0kenOfTheTests';
export const OWNER = 'Acme';
export const NAME = 'Acme/site';
const NULL_SHA = '0'.repeat(40);
const DOCUMENTATION = { documentation_url: 'https://docs.github.com/rest' };
/** git of the tests: no configuration of the machine. */
const ENVIRONMENT = { PATH: process.env.PATH, GIT_CONFIG_NOSYSTEM: '1', GIT_CONFIG_GLOBAL: '/dev/null', HOME: '/nonexistent' };

export interface Request {
  /** The number of the request, from 0. */
  n: number;
  method: string;
  path: string;
  body: any;
}

export interface Answer {
  status: number;
  body?: unknown;
  headers?: Record<string, string>;
  /** The body as it is, for answers that are no JSON. */
  text?: string;
}

/** A fault: an answer in place of the work, a connection that ends before or after the work, or a work of its own before that of GitHub. */
export type Fault = Answer | 'die-before' | 'die-after' | 'hang' | (() => void | Promise<void>) | undefined;

interface Identity {
  name: string;
  email: string;
  date: string;
}

interface Facts {
  tree: string;
  parents: string[];
  author: Identity;
  committer: Identity;
  message: string;
}

export interface Pull {
  number: number;
  title: string;
  body: string;
  head: string;
  sha: string;
  base: string;
  state: 'open' | 'closed';
  mergedAt: string | null;
}

export class FakeGitHub {
  readonly directory = mkdtempSync(path.join(tmpdir(), 'parallax-github-'));
  readonly requests: Request[] = [];
  readonly pulls: Pull[] = [];
  /** The faults that the description of the API says of the requests and answers. */
  readonly violations: string[] = [];
  fault: (request: Request) => Fault = () => undefined;
  defaultBranch = 'main';
  /** The old names of renamed branches and of the repository, from which GitHub redirects. */
  readonly renamed = new Map<string, string>();
  repository = NAME;
  /** Recursive listings of more entries are cut. */
  entriesMax = 100_000;
  url = '';
  readonly #server: Server;
  readonly #objects = new Map<string, unknown>();
  #indexes = 0;

  constructor() {
    this.git('init', '--bare', '--quiet', '--initial-branch=main', '.');
    this.#server = createServer((request, response) => {
      this.#serve(request, response).catch((error) => {
        this.violations.push(`The fake failed: ${error.stack}`);
        console.error(error.stack);
        request.socket.destroy();
      });
    });
  }

  async start(): Promise<this> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
    this.url = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
    return this;
  }

  stop(): void {
    this.#server.closeAllConnections();
    this.#server.close();
    rmSync(this.directory, { recursive: true, force: true });
  }

  /** Runs git in the repository, for the tests. Returns its output without the last line end. */
  git(...words: string[]): string {
    return execFileSync('git', words, {
      cwd: this.directory,
      encoding: 'utf8',
      env: { ...ENVIRONMENT },
      maxBuffer: 1 << 28,
      stdio: ['ignore', 'pipe', 'pipe'],
    }).replace(/\n$/, '');
  }

  /** Makes a commit on a branch, as a person with git does. Null removes a file. A text that begins with `->` makes a link, with `+x` an executable file. */
  commit(files: Record<string, string | Uint8Array | null>, branch = 'main', message = 'By hand'): string {
    const ref = `refs/heads/${branch}`;
    const parent = this.branches()[branch];
    const env = {
      ...ENVIRONMENT,
      GIT_INDEX_FILE: path.join(this.directory, `index-${this.#indexes++}`),
      ...identity({ name: 'By Hand', email: 'hand@acme.example', date: '2026-01-02T03:04:05Z' }),
    };
    const run = (words: string[], input: string | Uint8Array = '') =>
      execFileSync('git', words, { cwd: this.directory, env, input, encoding: 'utf8' }).trim();
    if (parent) run(['read-tree', parent]);
    const blobs = new Map<string, string>();
    const entries = Object.entries(files).map(([name, content]) => {
      if (content === null) return `0 ${NULL_SHA}\t${name}`;
      const mark = typeof content === 'string' ? /^(->|\+x)?/.exec(content)![0] : '';
      const bytes = content.slice(mark.length);
      const key = Buffer.from(bytes).toString('latin1');
      const sha = blobs.get(key) ?? run(['hash-object', '-w', '--stdin'], bytes);
      blobs.set(key, sha);
      return `${mark === '->' ? '120000' : mark ? '100755' : '100644'} ${sha}\t${name}`;
    });
    run(['update-index', '--index-info'], `${entries.join('\n')}\n`);
    const commit = run(['commit-tree', run(['write-tree']), ...(parent ? ['-p', parent] : []), '-m', message]);
    run(['update-ref', ref, commit, parent ?? NULL_SHA]);
    return commit;
  }

  /** Makes commits `m1` to `m<count>` on `main`, each with another `site.json`. */
  commitMany(count: number): void {
    const data = (text: string) => `data ${Buffer.byteLength(text)}\n${text}\n`;
    const one = (_: unknown, n: number) => {
      const from = n ? '' : `from ${this.branches().main}\n`;
      const head = `commit refs/heads/main\ncommitter By Hand <hand@acme.example> ${1_767_323_045 + n} +0000\n${data(`m${n + 1}`)}${from}`;
      return `${head}M 100644 inline site.json\n${data(String(n + 1))}`;
    };
    const input = Array.from({ length: count }, one).join('');
    execFileSync('git', ['fast-import', '--quiet'], { cwd: this.directory, env: { ...ENVIRONMENT }, input });
  }

  /** Returns the commits of all branches. */
  branches(): Record<string, string> {
    const lines = this.git('for-each-ref', '--format=%(refname:lstrip=2) %(objectname)', 'refs/heads').split('\n').filter(Boolean);
    return Object.fromEntries(lines.map((line) => line.split(' ') as [string, string]));
  }

  /** Returns the files of a commit with their contents, by `git`. */
  files(commit: string): Record<string, string> {
    const names = this.git('ls-tree', '-r', '-z', '--name-only', commit).split('\0').filter(Boolean);
    const show = (name: string) =>
      execFileSync('git', ['show', `${commit}:${name}`], { cwd: this.directory, encoding: 'utf8', env: { ...ENVIRONMENT } });
    return Object.fromEntries(names.map((name) => [name, show(name)]));
  }

  renameBranch(from: string, to: string, redirects: boolean): void {
    this.git('branch', '-m', from, to);
    if (this.defaultBranch === from) this.defaultBranch = to;
    if (redirects) this.renamed.set(from, to);
  }

  /** Merges a pull request as GitHub does. Returns false if git cannot. */
  merge(pull: Pull): boolean {
    const base = this.branches()[pull.base]!;
    try {
      const tree = this.git('merge-tree', '--write-tree', base, pull.sha);
      const env = { ...ENVIRONMENT, ...identity({ name: 'Merger', email: 'merger@acme.example', date: '2026-01-03T00:00:00Z' }) };
      const words = ['commit-tree', tree, '-p', base, '-p', pull.sha, '-m', `Merge ${pull.number}`];
      const commit = execFileSync('git', words, { cwd: this.directory, encoding: 'utf8', env }).trim();
      this.git('update-ref', `refs/heads/${pull.base}`, commit, base);
    } catch {
      return false;
    }
    pull.state = 'closed';
    pull.mergedAt = '2026-01-03T00:00:00Z';
    return true;
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const text = Buffer.concat(chunks).toString();
    const url = new URL(request.url!, this.url);
    const one = { n: this.requests.length, method: request.method!, path: url.pathname + url.search, body: text ? JSON.parse(text) : undefined };
    this.requests.push(one);
    const fault = this.fault(one);
    if (fault === 'die-before') return void request.socket.destroy();
    if (fault === 'hang') return;
    if (typeof fault === 'function') await fault();
    const answer = typeof fault === 'object' ? fault : await this.#answer(one, url, request);
    if (fault === 'die-after') return void request.socket.destroy();
    if (answer.text === undefined)
      this.violations.push(...faultsOfExchange(one.method, this.#described(url), one.body, answer.status, answer.body));
    response.writeHead(answer.status, { 'content-type': 'application/json; charset=utf-8', ...answer.headers });
    response.end(answer.text ?? (answer.body === undefined ? undefined : JSON.stringify(answer.body)));
  }

  /** Returns the URL with the name of the repository: a redirect uses its number. */
  #described(url: URL): URL {
    return new URL(url.href.replace(/\/repositories\/1(?=[/?]|$)/, `/repos/${this.repository}`));
  }

  async #answer({ method, body }: Request, url: URL, { headers }: IncomingMessage): Promise<Answer> {
    if (headers.authorization !== `Bearer ${TOKEN}`) return problem(401, 'Bad credentials');
    if (!headers['user-agent'])
      return problem(403, 'Request forbidden by administrative rules. Please make sure your request has a User-Agent header');
    const described = this.#described(url);
    const [, name, rest] = /^\/repos\/([^/]+\/[^/]+)(.*)$/.exec(described.pathname) ?? [];
    if (name && this.renamed.get(name) === this.repository) {
      const status = method === 'GET' ? 301 : 307;
      return { ...problem(status, 'Moved Permanently'), headers: { location: `${this.url}/repositories/1${rest}${url.search}` } };
    }
    if (name?.toLowerCase() !== this.repository.toLowerCase()) return problem(404, 'Not Found');
    try {
      return await this.#work(method, decodeURIComponent(rest!), described.searchParams, body);
    } catch (error) {
      return problem(500, `The fake failed: ${(error as Error).message}`);
    }
  }

  async #work(method: string, place: string, query: URLSearchParams, body: any): Promise<Answer> {
    const [, first, second, last] = /^\/?([^/]*)\/?((?<=git\/)[^/]*)?\/?(.*)$/.exec(place)!;
    switch (`${method} ${[first, second].filter(Boolean).join('/')}`) {
      case 'GET ':
        return this.#repository();
      case 'GET branches':
        return this.#branch(last!);
      case 'GET git/ref':
        return this.#reference(last!);
      case 'GET git/trees':
        return this.#tree(last!, query.has('recursive'));
      case 'GET git/blobs':
        return this.#blob(last!);
      case 'GET git/commits':
        return this.#commit(last!);
      case 'GET commits':
        return this.#history(query);
      case 'GET pulls':
        return this.#listPulls(query);
      case 'POST git/trees':
        return this.#createTree(body);
      case 'POST git/commits':
        return this.#createCommit(body);
      case 'POST git/refs':
        return this.#createReference(body);
      case 'DELETE git/refs':
        return this.#deleteReference(last!);
      case 'POST pulls':
        return this.#createPull(body);
      default:
        return problem(404, 'Not Found');
    }
  }

  #repository(): Answer {
    const [login, name] = this.repository.split('/');
    // The example lacks a member that its description requires, and it is a fork.
    const { source, parent, ...body } = { ...example('full-repository-default-response'), language: null };
    return {
      status: 200,
      body: { ...body, name, full_name: this.repository, owner: { ...body.owner, login }, default_branch: this.defaultBranch },
    };
  }

  async #branch(name: string): Promise<Answer> {
    const next = this.renamed.get(name);
    if (next)
      return { ...problem(301, 'Moved Permanently'), headers: { location: `${this.url}/repositories/1/branches/${encodeURIComponent(next)}` } };
    const commit = await this.#commitOf(name);
    if (!commit) return problem(404, 'Branch not found');
    const body = example('branch-get');
    return { status: 200, body: { ...body, name, commit: await this.#commitBody(commit) } };
  }

  async #reference(name: string): Promise<Answer> {
    const commit = await this.#commitOf(name.replace(/^heads\//, ''));
    return commit ? { status: 200, body: this.#referenceBody(`refs/${name}`, commit) } : problem(404, 'Not Found');
  }

  #referenceBody(ref: string, sha: string) {
    const url = `${this.url}/repos/${this.repository}/git`;
    return { ref, node_id: 'R', url: `${url}/${ref}`, object: { type: 'commit', sha, url: `${url}/commits/${sha}` } };
  }

  async #commitOf(branch: string): Promise<string | null> {
    return (await this.#run(['rev-parse', '--verify', '--quiet', `refs/heads/${branch}`]).catch(() => '')).trim() || null;
  }

  async #tree(sha: string, isRecursive: boolean): Promise<Answer> {
    const listed = await this.#object(`tree ${isRecursive} ${sha}`, () =>
      this.#run(['ls-tree', '-z', '--long', ...(isRecursive ? ['-r', '-t'] : []), sha]),
    );
    if (listed === null) return problem(404, 'Not Found');
    const lines = (listed as string).split('\0').filter(Boolean);
    const url = `${this.url}/repos/${this.repository}/git`;
    const tree = lines.map((line) => {
      const [, mode, type, one, size, name] = /^(\d+) (\w+) (\w+) +(-|\d+)\t([^]*)$/.exec(line)!;
      return { path: name, mode, type, sha: one, ...(size !== '-' && { size: Number(size) }), url: `${url}/${type}s/${one}` };
    });
    const isTruncated = isRecursive && tree.length > this.entriesMax;
    return {
      status: 200,
      body: { sha, url: `${url}/trees/${sha}`, tree: isTruncated ? tree.slice(0, this.entriesMax) : tree, truncated: isTruncated },
    };
  }

  async #blob(sha: string): Promise<Answer> {
    const content = await this.#object(`blob ${sha}`, async () => {
      const bytes = await this.#run(['cat-file', 'blob', sha], undefined, {}, 'latin1');
      return Buffer.from(bytes, 'latin1').toString('base64').replace(/.{60}/g, '$&\n');
    });
    if (content === null) return problem(404, 'Not Found');
    const size = Buffer.from(content as string, 'base64').length;
    return {
      status: 200,
      body: { sha, node_id: 'B', size, url: `${this.url}/repos/${this.repository}/git/blobs/${sha}`, content, encoding: 'base64' },
    };
  }

  /** Returns what does not change, from memory after the first time, or null if git has no such object. */
  async #object(key: string, read: () => Promise<unknown>): Promise<unknown> {
    const value = this.#objects.get(key) ?? (await read().catch(() => null));
    if (value !== null) this.#objects.set(key, value);
    return value;
  }

  async #facts(sha: string): Promise<Facts> {
    const facts = await this.#object(`facts ${sha}`, () => this.#readFacts(sha));
    if (!facts) throw new Error(`no commit ${sha}`);
    return facts as Facts;
  }

  async #readFacts(sha: string): Promise<Facts> {
    const format = '%T%n%P%n%an%n%ae%n%aI%n%cn%n%ce%n%cI%n%B';
    const [tree, parents, an, ae, ad, cn, ce, cd, ...message] = (await this.#run(['show', '--no-patch', `--format=${format}`, sha])).split('\n');
    const [author, committer] = [
      { name: an!, email: ae!, date: ad! },
      { name: cn!, email: ce!, date: cd! },
    ];
    return { tree: tree!, parents: parents!.split(' ').filter(Boolean), author, committer, message: message.join('\n').trimEnd() };
  }

  async #commit(sha: string, status = 200): Promise<Answer> {
    const facts = await this.#facts(sha).catch(() => null);
    if (!facts) return problem(404, 'Not Found');
    const url = `${this.url}/repos/${this.repository}/git`;
    const parents = facts.parents.map((parent) => ({ sha: parent, url: `${url}/commits/${parent}`, html_url: `${this.url}/${parent}` }));
    const verification = { verified: false, reason: 'unsigned', signature: null, payload: null, verified_at: null };
    const body = {
      ...facts,
      sha,
      node_id: 'C',
      url: `${url}/commits/${sha}`,
      html_url: `${this.url}/${sha}`,
      tree: { sha: facts.tree, url: `${url}/trees/${facts.tree}` },
      parents,
      verification,
    };
    return { status, body };
  }

  async #commitBody(sha: string) {
    const { tree, parents, author, committer, message } = await this.#facts(sha);
    const [body] = example('commit-items');
    const url = `${this.url}/repos/${this.repository}/git`;
    return {
      ...body,
      sha,
      parents: parents.map((parent) => ({ sha: parent, url: `${url}/commits/${parent}` })),
      commit: { ...body.commit, author, committer, message, tree: { sha: tree, url: `${url}/trees/${tree}` } },
    };
  }

  async #history(query: URLSearchParams): Promise<Answer> {
    const size = Number(query.get('per_page') ?? 30);
    const skip = size * (Number(query.get('page') ?? 1) - 1);
    const words = [
      'log',
      '--format=%H',
      `--max-count=${size}`,
      `--skip=${skip}`,
      query.get('sha')!,
      '--',
      ...(query.has('path') ? [query.get('path')!] : []),
    ];
    const commits = (await this.#run(words)).split('\n').filter(Boolean);
    return { status: 200, body: await Promise.all(commits.map((sha) => this.#commitBody(sha))) };
  }

  async #createTree({ base_tree, tree }: any): Promise<Answer> {
    const GIT_INDEX_FILE = path.join(this.directory, `index-${this.#indexes++}`);
    const present = new Set((await this.#run(['ls-tree', '-r', '-z', '--name-only', base_tree])).split('\0'));
    await this.#run(['read-tree', base_tree], undefined, { GIT_INDEX_FILE });
    const lines = [];
    for (const { path: name, mode, sha, content } of tree) {
      if ((sha === undefined) === (content === undefined)) return problem(422, 'Must supply either tree.sha or tree.content.');
      if (sha === null && !present.has(name)) return problem(422, 'GitRPC::BadObjectState');
      const write = async () => (await this.#run(['hash-object', '-w', '--stdin'], content)).trim();
      const blob = sha === null ? NULL_SHA : (sha ?? (await this.#object(`content ${content}`, write)));
      lines.push(`${sha === null ? '0' : mode} ${blob}\t${name}\0`);
    }
    await this.#run(['update-index', '-z', '--index-info'], lines.join(''), { GIT_INDEX_FILE });
    const made = (await this.#run(['write-tree'], undefined, { GIT_INDEX_FILE })).trim();
    rmSync(GIT_INDEX_FILE, { force: true });
    return { ...(await this.#tree(made, false)), status: 201 };
  }

  async #createCommit({ message, tree, parents, author }: any): Promise<Answer> {
    const words = ['commit-tree', tree, ...parents.flatMap((parent: string) => ['-p', parent]), '-F', '-'];
    const sha = (await this.#run(words, message, identity(author))).trim();
    return this.#commit(sha, 201);
  }

  async #createReference({ ref, sha }: any): Promise<Answer> {
    const isCommit = await this.#run(['cat-file', '-e', `${sha}^{commit}`]).then(
      () => true,
      () => false,
    );
    if (!isCommit) return problem(422, 'Object does not exist');
    const isName = await this.#run(['check-ref-format', ref]).then(
      () => true,
      () => false,
    );
    if (!isName) return problem(422, `${ref} is not a valid ref name.`);
    try {
      await this.#run(['update-ref', ref, sha, NULL_SHA]);
    } catch {
      return problem(422, 'Reference already exists');
    }
    return { status: 201, body: this.#referenceBody(ref, sha) };
  }

  /** The removal of a branch closes its pull requests. */
  async #deleteReference(name: string): Promise<Answer> {
    const branch = name.replace(/^heads\//, '');
    const commit = await this.#commitOf(branch);
    if (!commit) return problem(422, 'Reference does not exist');
    await this.#run(['update-ref', '-d', `refs/${name}`, commit]);
    for (const pull of this.pulls) if (pull.head === branch) pull.state = 'closed';
    return { status: 204 };
  }

  async #createPull({ title, head, base, body }: any): Promise<Answer> {
    const invalid = (error: object) => ({
      status: 422,
      body: { message: 'Validation Failed', errors: [{ resource: 'PullRequest', ...error }], ...DOCUMENTATION },
    });
    const [sha, baseSha] = [await this.#commitOf(head), await this.#commitOf(base)];
    if (!sha) return invalid({ field: 'head', code: 'invalid' });
    if (!baseSha) return invalid({ field: 'base', code: 'invalid' });
    const isOpen = (pull: Pull) => pull.state === 'open' && pull.head === head && pull.base === base;
    const count = (await this.#run(['rev-list', '--count', `${baseSha}..${sha}`])).trim();
    if (count === '0') return invalid({ code: 'custom', message: `No commits between ${base} and ${head}` });
    if (this.pulls.some(isOpen)) return invalid({ code: 'custom', message: `A pull request already exists for ${OWNER}:${head}.` });
    const pull: Pull = { number: this.pulls.length + 1, title, body, head, sha, base, state: 'open', mergedAt: null };
    this.pulls.push(pull);
    return { status: 201, body: this.#pullBody(example('pull-request'), pull) };
  }

  #listPulls(query: URLSearchParams): Answer {
    const [state, head] = [query.get('state') ?? 'open', query.get('head')];
    const found = this.pulls.filter(
      (pull) => (state === 'all' || pull.state === state) && (!head || head === `${this.repository.split('/')[0]}:${pull.head}`),
    );
    const [body] = example('pull-request-simple-items');
    return { status: 200, body: found.map((pull) => this.#pullBody(body, pull)) };
  }

  #pullBody(body: any, { number, title, body: text, head, sha, base, state, mergedAt }: Pull) {
    const html_url = `${this.url}/${this.repository}/pull/${number}`;
    const changed = { number, title, body: text, state, merged_at: mergedAt, html_url, requested_teams: [] };
    return { ...body, ...changed, head: { ...body.head, ref: head, sha, label: `${OWNER}:${head}` }, base: { ...body.base, ref: base } };
  }

  #run(words: string[], input?: string, more: Record<string, string> = {}, encoding: BufferEncoding = 'utf8'): Promise<string> {
    return new Promise((resolve, reject) => {
      const options = { cwd: this.directory, env: { ...ENVIRONMENT, ...more }, encoding, maxBuffer: 1 << 28 };
      const child = execFile('git', words, options, (error, output) => (error ? reject(error) : resolve(output)));
      child.stdin!.on('error', () => {});
      child.stdin!.end(input ?? '');
    });
  }
}

function identity({ name, email, date }: Identity): Record<string, string> {
  return {
    GIT_AUTHOR_NAME: name,
    GIT_AUTHOR_EMAIL: email,
    GIT_AUTHOR_DATE: date,
    GIT_COMMITTER_NAME: name,
    GIT_COMMITTER_EMAIL: email,
    GIT_COMMITTER_DATE: date,
  };
}

export function problem(status: number, message: string, headers: Record<string, string> = {}): Answer {
  return { status, headers, body: { message, ...DOCUMENTATION } };
}
