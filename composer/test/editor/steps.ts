// The steps of a person in the composer, in Chromium.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import type { BrowserContext, Page } from 'playwright-core';
import { PARALLAX, type Team, type TeamOptions, bundle, startTeam } from './team.js';

const STEP_MS = 20_000;
/** The time zone of the person. It has another offset than that of the files. */
export const TIME_ZONE = 'Asia/Kolkata';

/** An app with its browser, and the list of the pages in it. */
export interface Session {
  team: Team;
  context: BrowserContext;
  page: Page;
}

/** Starts the app, and opens the list of the pages. `faults` gets the errors of the page. */
export async function startSession(built: Awaited<ReturnType<typeof bundle>>, faults: string[], options: TeamOptions = {}): Promise<Session> {
  const team = await startTeam(built, options);
  const context = await team.browser.newContext({ viewport: { width: 1500, height: 900 }, timezoneId: TIME_ZONE });
  context.setDefaultTimeout(STEP_MS);
  const page = await context.newPage();
  faults.length = 0;
  page.on('pageerror', (error) => faults.push(error.message));
  page.on('console', (message) => message.type() === 'error' && !/Failed to load resource/.test(message.text()) && faults.push(message.text()));
  await page.goto(team.url);
  await page.getByRole('heading', { name: 'Pages' }).waitFor();
  return { team, context, page };
}

/** Returns the steps in the present session. */
export function stepsOf(session: () => Pick<Session, 'team' | 'page'>) {
  const preview = () => session().page.frameLocator('iframe');
  return {
    preview,
    text: (file: string) => readFileSync(path.join(session().team.directory, file), 'utf8'),
    async open(route: string) {
      await session().page.getByRole('list', { name: 'Pages' }).getByRole('button').filter({ hasText: new RegExp(`^${route} `) }).first().click();
      await preview().locator('[data-zone]').first().waitFor();
    },
    async zone(name: string) {
      const button = session().page.getByRole('region', { name: 'Zones' }).getByRole('button', { name: new RegExp(`^${name} `) });
      if ((await button.getAttribute('aria-expanded')) === 'false') await button.click();
      await session().page.getByRole('tablist', { name: `Versions of ${name}` }).waitFor();
    },
    tab: (name: string) => session().page.getByRole('tab', { name, exact: true }),
    /** Selects a block by its outline, and writes into one of its fields. */
    async write(block: string, field: string, value: string) {
      await preview().locator(block).first().click();
      await session().page.getByRole('complementary', { name: 'Content' }).getByLabel(field, { exact: true }).first().fill(value);
    },
    async save(message: string, button = 'Save') {
      const { page } = session();
      await page.getByRole('button', { name: /^Changes/ }).click();
      await page.getByLabel('What did you change?').fill(message);
      await page.getByRole('button', { name: button, exact: true }).click();
    },
    /** Fails with the mistakes of the site, if it has any. Returns the warnings. */
    lint() {
      const { status, stderr } = spawnSync(PARALLAX, ['lint', session().team.directory], { encoding: 'utf8' });
      assert.equal(status, 0, stderr);
      return stderr;
    },
    /** Returns the lines of the program about the change from another directory of the site. */
    changesFrom(before: string): string[] {
      return execFileSync(PARALLAX, ['lint', session().team.directory, '--against', before], { encoding: 'utf8' }).trim().split('\n').slice(1, -1);
    },
    /** Fails with the violations that axe finds in a part of the composer. */
    async checkAxe(place: string) {
      const { page } = session();
      await page.evaluate(readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8'));
      const found = await page.evaluate(async () => {
        // The blocks, the outline, the preview and the fields are parts of the editor library.
        const exclude = [['[class*="Puck"]'], ['[class*="Outline"]'], ['[class*="Drawer"]'], ['[class*="PuckFields"]'], ['[class*="Input"]'], ['iframe']];
        const { violations } = await (globalThis as any).axe.run({ include: [['.px-composer']], exclude }, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa'] });
        return violations.map(({ id, nodes }: any) => `${id}: ${nodes.map(({ html }: any) => html).join(' ')}`);
      });
      assert.deepEqual(found, [], place);
    },
    /** Presses Tab through the whole page, and returns the names of the enabled controls of the view that it does not reach. */
    async unreached(): Promise<string[]> {
      const { page } = session();
      const controls = await page.evaluate(() => {
        const found = [...document.querySelectorAll('main :is(button, input, select, textarea, summary, a[href])')].filter((control) => !(control as HTMLInputElement).disabled);
        found.forEach((control, at) => control.setAttribute('data-control', String(at)));
        (document.activeElement as HTMLElement | null)?.blur();
        return found.map((control) => control.outerHTML);
      });
      assert.ok(controls.length > 0);
      const reached = new Set<number>();
      // A field of date and time has a stop for each of its parts.
      for (let stop = 0; stop < controls.length * 8 && reached.size < controls.length; stop += 1) {
        await page.keyboard.press('Tab');
        const at = await page.evaluate(() => document.activeElement?.getAttribute('data-control'));
        if (at) reached.add(Number(at));
      }
      return controls.filter((_, at) => !reached.has(at));
    },
  };
}
