// A person at the editor: the app of a team in Chromium, and what the person does.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import type { BrowserContext, FrameLocator, Locator, Page } from 'playwright-core';
import { PARALLAX, type Team, type TeamOptions, bundle, startTeam } from './team.js';

/** The project of the tests, with the packed package. */
const PROJECT = path.join(path.dirname(fileURLToPath(import.meta.url)), '../..');
const STEP_MS = 20_000;

export type Built = Awaited<ReturnType<typeof bundle>>;
export const build = (): Promise<Built> => bundle(PROJECT);

export interface Desk {
  team: Team;
  context: BrowserContext;
  page: Page;
  /** The errors of the page. */
  faults: string[];
  /** The saved text of a file, and the layout of a saved page. */
  text(file: string): string;
  layout(file: string): any;
  /** The text of a file as the editor has it now. */
  draft(file: string): Promise<string>;
  open(route: string): Promise<void>;
  preview(): FrameLocator;
  /** Shows the versions of a zone. */
  zone(name: string): Promise<void>;
  tab(name: string): Locator;
  /** Selects a block in the preview, and writes into one of its fields. */
  write(block: string, field: string, value: string): Promise<void>;
  save(message: string, button?: string): Promise<void>;
  /** Fails with the mistakes of the site, if it has any. */
  lint(): string;
}

/** Starts the app, and opens the list of the pages. */
export async function startDesk(built: Built, options: TeamOptions = {}, query = ''): Promise<Desk> {
  const team = await startTeam(built, options);
  const context = await team.browser.newContext({ viewport: { width: 1500, height: 900 } });
  context.setDefaultTimeout(STEP_MS);
  const page = await context.newPage();
  const faults: string[] = [];
  page.on('pageerror', (error) => faults.push(error.message));
  page.on('console', (message) => message.type() === 'error' && !/Failed to load resource/.test(message.text()) && faults.push(message.text()));
  await page.goto(`${team.url}/${query}`);
  await page.getByRole('heading', { name: 'Pages' }).waitFor();
  return { team, context, page, faults, ...actionsOn(() => page, team) };
}

/** Returns the actions on the present page of a person. */
export function actionsOn(current: () => Page, team: Team): Omit<Desk, 'team' | 'context' | 'page' | 'faults'> {
  const text = (file: string) => readFileSync(path.join(team.directory, file), 'utf8');
  const preview = () => current().frameLocator('iframe');
  return {
    text,
    layout: (file) => JSON.parse(text(file)).layout,
    draft: async (file) => (await current().evaluate((name) => JSON.parse(localStorage.getItem('parallax.composer./api/composer') ?? '{}')[name]?.text as string | undefined, file)) ?? text(file),
    async open(route) {
      await current().getByRole('list', { name: 'Pages' }).getByRole('button').filter({ hasText: new RegExp(`^${route} `) }).first().click();
      await preview().locator('[data-zone]').first().waitFor();
    },
    preview,
    async zone(name) {
      const button = current().getByRole('region', { name: 'Zones' }).getByRole('button', { name: new RegExp(`^${name} `) });
      if ((await button.getAttribute('aria-expanded')) === 'false') await button.click();
      await current().getByRole('tablist', { name: `Versions of ${name}` }).waitFor();
    },
    tab: (name) => current().getByRole('tab', { name, exact: true }),
    async write(block, field, value) {
      await preview().locator(block).first().click();
      await current().getByRole('complementary', { name: 'Content' }).getByLabel(field, { exact: true }).first().fill(value);
    },
    async save(message, button = 'Save') {
      await current().getByRole('button', { name: /^Changes/ }).click();
      await current().getByLabel('What did you change?').fill(message);
      await current().getByRole('button', { name: button, exact: true }).click();
    },
    lint: () => execFileSync(PARALLAX, ['lint', team.directory], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] }),
  };
}
