// The command line.
import { serveSite } from './dev.js';
import { toModulePath } from './disk.js';
import { Module } from './module.js';
import { runToEnd } from './runs.js';

// The exit code of the program after an internal error.
const PANIC_CODE = 101;

/** Returns the arguments for the module, which writes paths with `/`. Only the text of `--filter` keeps its `\`. */
function moduleArguments(words) {
  return words.map((word, at) => (words[at - 1] === '--filter' || word.startsWith('--filter=') ? word : toModulePath(word)));
}

/** Runs the command of the arguments. Returns the exit code. */
export async function main(words) {
  const columns = process.stdout.columns ?? process.stderr.columns ?? Number(process.env.COLUMNS);
  const input = moduleArguments(words).flatMap((word) => ['argument', word]);
  if (columns > 0) input.push('columns', `${columns}`);
  try {
    const { code, serve } = runToEnd(new Module(), 'run', input);
    return serve === null ? code : await serveSite(serve);
  } catch (error) {
    console.error(`parallax: internal error: ${error.message}`);
    return PANIC_CODE;
  }
}
