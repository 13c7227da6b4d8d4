// Requests to the endpoint of the composer.
import type { Feature } from '../server/handler.js';
import type { Mistake } from '../server/errors.js';
import type { Published, SiteFile, Version } from '../server/storage.js';
import { type Drafts, type Site, changesOf } from './site.js';

export type Role = 'view' | 'edit' | 'publish' | 'visitors';

/** A refusal of the endpoint, with its sentence for people. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    detail: string,
    readonly body: Record<string, unknown>,
  ) {
    super(detail);
  }
}

/** Returns the mistakes of a site that was not published. */
export function mistakesOf(error: unknown): Mistake[] {
  const errors = error instanceof ApiError ? error.body.errors : undefined;
  return Array.isArray(errors) ? (errors as Mistake[]) : [];
}

export interface LoadedSite extends Site {
  roles: Role[];
  user: { name: string; email: string };
  /** The parts of the editor that this composer has. */
  features: Feature[];
}

/** A page that a link shows. */
export interface PreviewedPage {
  page: string;
  text: string;
  /** The names of the audiences. */
  audiences: Record<string, string>;
  /** The name of the person who made the link. */
  by: string;
  expires: string;
}

/** The result of a save: the new revision, or the present files that others have changed. */
export type SaveResult = { kind: 'saved'; revision: string; url?: string } | { kind: 'conflict'; revision: string; files: Record<string, SiteFile | null> };

export interface Api {
  load(): Promise<LoadedSite>;
  save(site: Site, drafts: Drafts, message: string): Promise<SaveResult>;
  publish(revision: string): Promise<Published>;
  versions(): Promise<Version[]>;
  rollback(version: string, newest: string): Promise<Published>;
  /** Makes a link to a page at a revision. Its URL is relative to the page with the editor. */
  linkPreview(revision: string, page: string, days: number): Promise<{ url: string; expires: string }>;
  /** Returns the page of a link. It needs no session. */
  preview(token: string): Promise<PreviewedPage>;
  history(): Promise<{ revision: string; message: string; author: string; at: string }[]>;
  filesAt(revision: string): Promise<Record<string, SiteFile>>;
  explain(question: Record<string, unknown>): Promise<Record<string, unknown>>;
  sizes(): Promise<{ audiences: { name: string; atLeast: number; atMost: number }[] }>;
}

export function createApi(endpoint: string): Api {
  async function ask(path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Record<string, any>> {
    const init: RequestInit = body === undefined ? { headers } : { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) };
    const response = await fetch(`${endpoint}/${path}`, init).catch(() => {
      throw new ApiError(0, 'network', 'The server of the composer does not answer. Your changes are still here.', {});
    });
    const answer = await response.json().catch(() => ({}));
    if (response.ok) return answer;
    throw new ApiError(response.status, answer.code ?? 'failed', answer.detail ?? `The server answered with status ${response.status}.`, answer);
  }

  return {
    load: async () => (await ask('site')) as LoadedSite,
    async save(site, drafts, message) {
      try {
        const saved = await ask('save', { base: site.revision, changes: changesOf(drafts), message });
        return { kind: 'saved', revision: saved.revision, url: saved.url };
      } catch (error) {
        if (!(error instanceof ApiError) || error.status !== 409) throw error;
        const { revision, files } = error.body as { revision: string; files: Record<string, SiteFile | null> };
        return { kind: 'conflict', revision, files };
      }
    },
    publish: async (revision) => (await ask('publish', { revision })) as Published,
    versions: async () => (await ask('versions')).versions,
    rollback: async (version, newest) => (await ask('rollback', { version, newest })) as Published,
    linkPreview: async (revision, page, days) => (await ask('preview', { revision, page, days })) as { url: string; expires: string },
    preview: async (token) => (await ask('preview', undefined, { 'x-preview': token })) as PreviewedPage,
    history: async () => (await ask('history')).revisions,
    filesAt: async (revision) => (await ask(`history/${encodeURIComponent(revision)}`)).files,
    explain: (question) => ask('explain', question),
    sizes: async () => (await ask('sizes')) as { audiences: { name: string; atLeast: number; atMost: number }[] },
  };
}
