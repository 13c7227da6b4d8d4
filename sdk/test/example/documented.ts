// The steps of docs/nextjs.md.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';

/** A step of the page: a `bash` block, or a block of another language after a paragraph that begins with a file name. */
export type Step = { run: string } | { write: string; text: string };

/** Returns the steps of docs/nextjs.md. */
export function documentedSteps(): Step[] {
  const page = readFileSync(path.resolve(process.env.PARALLAX_SDK!, '../docs/nextjs.md'), 'utf8');
  const steps: Step[] = [];
  for (const match of page.matchAll(/(?:^`([\w./[\]-]+\.tsx?)`[^\n]*(?:\n[^\n]+)*\n\n)?^```(bash|tsx?)\n(.*?)^```$/gms)) {
    const [, name, language, text] = match;
    if (language === 'bash') steps.push({ run: text! });
    else if (name) steps.push({ write: name, text: text! });
    else assert.fail(`a block of docs/nextjs.md without a file name:\n${text}`);
  }
  return steps;
}

/** Returns the files that the page writes, by name. Of two with one name, the first. */
export function documentedFiles(): Map<string, string> {
  const files = documentedSteps().filter((step) => 'write' in step);
  return new Map(files.reverse().map(({ write, text }) => [write, text]));
}
