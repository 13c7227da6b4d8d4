// Publications with the program of Parallax.
//
// The program gets a copy of the files: a publication whose process was killed can go on, and must not read a later save. It writes a
// snapshot without a name, syncs it and links it into place, so that a server sees the whole file or none.
import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { type Mistake, StorageError } from './errors.js';
import { COPY_LEFT_MS, MISTAKES_MAX, PROGRAM_MS, VERSIONS_MAX } from './limits.js';
import { type Ended, runProgram } from './program.js';
import type { Published, SiteFile, Version } from './storage.js';

/** Publishes the files of a site. */
export interface Publisher {
  publish(publication: { revision: string; files: ReadonlyMap<string, SiteFile> }): Promise<Published>;
  /** Returns the published versions of the site with these files, the newest first. */
  versions?(files: Record<string, SiteFile>): Promise<Version[]>;
  rollback?(files: Record<string, SiteFile>, version: string, newest: string): Promise<Published>;
}

interface CompileOptions {
  /** The program. Default: `parallax`, in a directory of the variable PATH. */
  program?: string;
  /** The tracking ID of the publication, as `compile --tracking-id` has it. */
  trackingId?: string;
  /** Versions of the site that stay. Default: that of the program. */
  keep?: number;
}

export interface ProgramOptions extends CompileOptions {
  /** The snapshots directory of a server. */
  snapshots: string;
}

export interface SourceOptions extends CompileOptions {
  /** The source from which the servers pull, as `parallax publish --to` has it. */
  to: string;
  /** Variables for `parallax publish`, such as AWS_ACCESS_KEY_ID. */
  env?: Record<string, string>;
  /** More options of `parallax publish`, such as `['--cluster-creds', FILE]`. */
  args?: string[];
}

/** A snapshot of a site, with the names that it has in its place. */
interface Snapshot extends Version {
  name: string;
}

/** The directory or the source that has the snapshots of a site. */
interface Place {
  program: string;
  /** Returns the snapshots of a site, the newest first. */
  list(site: string): Promise<Snapshot[]>;
  /** Returns the versions that a new one must exceed. */
  taken(site: string): Promise<bigint[]>;
  /** Compiles the directory `site`, and publishes it. `build` is a directory for the snapshot. */
  publish(site: string, version: string, build: string): Promise<void>;
  /** Takes back the newest version. */
  removeNewest(site: string, snapshot: Snapshot): Promise<void>;
}

/** Publishes with `parallax compile` into the snapshots directory of a server, and goes back with `parallax rollback`. */
export function publishWithProgram({ snapshots, program = 'parallax', trackingId, keep }: ProgramOptions): Publisher {
  if (!snapshots) throw new TypeError("'snapshots' is missing: the snapshots directory of a server.");
  const directory = path.resolve(snapshots);
  const versionsIn = (site: string, ending: RegExp) =>
    namesIn(directory).flatMap((name) => {
      const version = ending.test(name) && name.startsWith(`${site}-`) ? /^(\d{1,20})\./.exec(name.slice(site.length + 1))?.[1] : undefined;
      return version === undefined ? [] : [{ name, version }];
    });

  async function list(site: string): Promise<Snapshot[]> {
    const found = versionsIn(site, /-\d+\.snapshot$/).sort(byVersion).slice(0, VERSIONS_MAX);
    const valid: Snapshot[] = [];
    for (const { name, version } of found) {
      const at = statSync(path.join(directory, name), { throwIfNoEntry: false })?.mtime.toISOString();
      // A server does not serve a damaged snapshot.
      if (at === undefined || (await runProgram(program, ['check', path.join(directory, name)])).code !== 0) continue;
      valid.push({ name, version, at, isServed: valid.length === 0 });
    }
    return valid;
  }

  return publisherAt({
    program,
    list,
    taken: async (site) => versionsIn(site, /-\d+\.snapshot(\.removed)?$/).map(({ version }) => BigInt(version)),
    async publish(site, version) {
      removeOld(directory, /^\..+-\d+\.snapshot\.\d+\.tmp$/, PROGRAM_MS);
      await compile({ program, trackingId, keep }, site, version, directory);
    },
    async removeNewest(site) {
      const ended = await runProgram(program, ['rollback', directory, site, '--yes']);
      if (ended.code !== 0) throw failed('The program refused to go back to the version before.', ended);
    },
  });
}

/** Publishes with `parallax compile` and `parallax publish` for all servers that pull from a source. */
export function publishToSource({ to, program = 'parallax', trackingId, keep, env = {}, args = [] }: SourceOptions): Publisher {
  if (!to) throw new TypeError("'to' is missing: the source from which the servers pull.");
  const run = async (...words: string[]): Promise<Ended> => {
    const ended = await runProgram(program, ['publish', ...words, '--to', to, ...args], env);
    if (ended.code === 0) return ended;
    if (ended.code === 3) throw new StorageError('source_unreachable', 'The source of the snapshots does not answer; try again.', { cause: new Error(ended.errors) });
    throw failed('The source of the snapshots refused the change.', ended);
  };

  /** Reads lines such as `acme-43.snapshot  565296 bytes`. */
  async function list(site: string): Promise<Snapshot[]> {
    const { output } = await run('--list');
    const names = output.split('\n').flatMap((line) => /^(\S+-\d{1,20}\.snapshot) /.exec(line)?.[1] ?? []);
    const own = names.filter((name) => name.startsWith(`${site}-`) && /^\d+\.snapshot$/.test(name.slice(site.length + 1)));
    const found = own.map((name) => ({ name, version: /(\d+)\.snapshot$/.exec(name)![1]! })).sort(byVersion);
    return found.slice(0, VERSIONS_MAX).map((snapshot, n) => ({ ...snapshot, at: null, isServed: n === 0 }));
  }

  return publisherAt({
    program,
    list,
    taken: async (site) => (await list(site)).map(({ version }) => BigInt(version)),
    async publish(site, version, build) {
      await compile({ program, trackingId }, site, version, build);
      const name = namesIn(build).find((file) => file.endsWith('.snapshot'));
      if (name === undefined) throw new StorageError('publish_failed', 'The program wrote no snapshot.');
      await run(path.join(build, name), ...(keep === undefined ? [] : ['--keep', `${keep}`]));
    },
    removeNewest: async (_, { name }) => void (await run('--remove', name)),
  });
}

function publisherAt(place: Place): Publisher {
  async function publish({ files }: { files: ReadonlyMap<string, SiteFile> }): Promise<Published> {
    const site = siteOf(files.get('site.json'));
    const version = nextVersion(await place.taken(site));
    const copy = copyOf(files);
    try {
      await place.publish(path.join(copy, 'site'), version, path.join(copy, 'build'));
    } finally {
      rmSync(copy, { recursive: true, force: true });
    }
    return { status: `Version ${version} is published.`, version };
  }

  async function versions(files: Record<string, SiteFile>): Promise<Version[]> {
    const found = await place.list(siteOf(files['site.json']));
    return found.map(({ version, at, isServed }) => ({ version, at, isServed }));
  }

  async function rollback(files: Record<string, SiteFile>, version: string, newest: string): Promise<Published> {
    const site = siteOf(files['site.json']);
    let found = await place.list(site);
    if (found[0]?.version !== newest) throw new StorageError('versions_changed', 'Another version was published in the meantime; look at the versions again.');
    if (!found.some((snapshot) => snapshot.version === version)) throw new StorageError('version_not_found', `Version ${version.slice(0, 20)} of the site is not there any more.`);
    while (found[0]!.version !== version) {
      const before = found[0]!;
      await place.removeNewest(site, before);
      found = await place.list(site);
      if (!found.some((snapshot) => snapshot.version === version) || found[0]!.version === before.version) {
        throw new StorageError('publish_failed', 'The program took back another version than the newest one. Look at the snapshots directory.');
      }
    }
    return { status: `Version ${version} is published again.`, version };
  }

  return { publish, versions, rollback };
}

/** Compiles a site into a directory, under the name of the site and the version. */
async function compile({ program = 'parallax', trackingId, keep }: CompileOptions, site: string, version: string, output: string): Promise<void> {
  const words = ['compile', site, '-o', `${output}/`, '--version', version];
  const more = [...(trackingId === undefined ? [] : ['--tracking-id', trackingId]), ...(keep === undefined ? [] : ['--keep', `${keep}`])];
  const ended = await runProgram(program, [...words, ...more]);
  if (ended.code === 0) return;
  const mistakes = ended.code === 1 ? mistakesOf((await runProgram(program, ['lint', site, '--format', 'json'])).output) : [];
  if (mistakes.length === 0) throw failed('The program did not compile the site.', ended);
  throw new StorageError('site_invalid', 'The site has mistakes, and was not published. Correct them, and publish again.', { mistakes });
}

/** Returns the mistakes of the output of `lint --format json`. */
function mistakesOf(output: string): Mistake[] {
  try {
    const { errors } = JSON.parse(output) as { errors?: unknown };
    return Array.isArray(errors) ? (errors.slice(0, MISTAKES_MAX) as Mistake[]) : [];
  } catch {
    return [];
  }
}

/** The words of the program go into the log of the server, because they can name its directories. */
function failed(message: string, { code, errors }: Ended): StorageError {
  return new StorageError('publish_failed', `${message} The log of the server has the cause.`, { cause: new Error(`exit code ${code}: ${errors.slice(0, 4_000)}`) });
}

/** Returns the site ID. It is a part of the names of snapshots. */
function siteOf(file: SiteFile | undefined): string {
  try {
    const { site } = JSON.parse(file?.text ?? '') as { site?: unknown };
    // An option of the program begins with a hyphen.
    if (typeof site === 'string' && /^[A-Za-z0-9_][A-Za-z0-9._-]*$/.test(site)) return site;
  } catch {
    // The error below says it.
  }
  throw new StorageError('site_invalid', 'site.json has no site ID. Correct it first.', { mistakes: [{ file: 'site.json', title: 'no site ID' }] });
}

/** Returns the time in seconds, or the number after the highest version: a server serves the highest version of a site. */
function nextVersion(taken: bigint[]): string {
  const now = BigInt(Math.floor(Date.now() / 1000));
  return `${taken.reduce((highest, version) => (version >= highest ? version + 1n : highest), now)}`;
}

function byVersion(a: { version: string }, b: { version: string }): number {
  return BigInt(a.version) < BigInt(b.version) ? 1 : -1;
}

const COPY_NAME = 'parallax-publish-';

/** Writes the files into a new directory `site` beside an empty one `build`. Returns the directory of both. */
function copyOf(files: ReadonlyMap<string, SiteFile>): string {
  removeOld(tmpdir(), new RegExp(`^${COPY_NAME}`), COPY_LEFT_MS);
  const copy = mkdtempSync(path.join(tmpdir(), COPY_NAME));
  mkdirSync(path.join(copy, 'build'));
  for (const [name, { text }] of files) {
    const file = path.join(copy, 'site', name);
    mkdirSync(path.dirname(file), { recursive: true });
    writeFileSync(file, text);
  }
  return copy;
}

/** Removes what a killed publication left in a directory, if it is older. Another process may do the same. */
function removeOld(directory: string, name: RegExp, ageMs: number): void {
  for (const entry of namesIn(directory).filter((found) => name.test(found))) {
    const place = path.join(directory, entry);
    const stat = statSync(place, { throwIfNoEntry: false });
    if (!stat || Date.now() - stat.mtimeMs < ageMs) continue;
    try {
      rmSync(place, { recursive: true, force: true });
    } catch {
      // It belongs to another user.
    }
  }
}

/** Returns the names in a directory. One that does not exist has none. */
function namesIn(directory: string): string[] {
  try {
    return readdirSync(directory);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}
