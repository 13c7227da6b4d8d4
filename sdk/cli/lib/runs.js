// Starts a run of the module again until it has all that it reads, and carries out its changes.
import { apply, describeError, lookAt, writeAll } from './disk.js';
import { splitStrings } from './module.js';

// Fields of each kind of record that the module writes, without the tag.
const FIELDS = { need: 2, code: 1, output: 1, errors: 1, directory: 1, write: 2, replace: 2, delete: 1, serve: 2 };

// Runs until the module has all files. Each level of directories needs one, and each change that fails.
const RUNS_MAX = 10_000;

/** The variables of the environment that a command reads. */
export function variables() {
  const epoch = process.env.SOURCE_DATE_EPOCH;
  return epoch === undefined ? [] : ['variable', 'SOURCE_DATE_EPOCH', epoch];
}

function readOutput(bytes) {
  const strings = splitStrings(bytes);
  const outcome = { needs: [], changes: [], code: 0, output: Buffer.alloc(0), errors: Buffer.alloc(0), serve: null };
  for (let at = 0; at < strings.length; ) {
    const tag = `${strings[at]}`;
    const [first, second] = strings.slice(at + 1, at + 1 + FIELDS[tag]);
    at += 1 + FIELDS[tag];
    if (tag === 'need') outcome.needs.push({ file: `${first}`, bytesMax: Number(`${second}`) });
    else if (tag === 'code') outcome.code = Number(`${first}`);
    else if (tag === 'output' || tag === 'errors') outcome[tag] = first;
    else if (tag === 'serve') outcome.serve = { address: `${first}`, directory: `${second}` };
    else outcome.changes.push({ kind: tag, file: `${first}`, content: second });
  }
  return outcome;
}

/** Prints the output of a run. A closed pipe has read enough. Returns the error of standard output, if it cannot be written. */
export function print({ output, errors }) {
  const write = (descriptor, content) => {
    try {
      writeAll(descriptor, content);
    } catch (error) {
      // Windows reports a closed pipe as EOF.
      return ['EPIPE', 'EOF'].includes(error.code) ? null : error;
    }
    return null;
  };
  const failed = write(1, output);
  if (failed === null) write(2, errors);
  return failed;
}

/**
 * Calls a function of the module until it needs no more files. `applyChange` carries out a change, and `printOutput` prints the output.
 * Returns the outcome.
 */
export function runToEnd(module, name, input, { applyChange = apply, printOutput = print } = {}) {
  const facts = new Map();
  const failures = [];
  let doneCount = 0;
  for (let run = 0; run < RUNS_MAX; run += 1) {
    const read = [...facts].flatMap(([file, fields]) => ['fact', file, ...fields]);
    const outcome = readOutput(module.call(name, [...input, ...variables(), ...read, ...failures]));
    if (outcome.needs.length > 0) {
      for (const { file, bytesMax } of outcome.needs) facts.set(file, lookAt(file, bytesMax));
      continue;
    }
    const failed = outcome.changes.slice(doneCount).find((change) => {
      doneCount += 1;
      try {
        applyChange(change);
      } catch (error) {
        failures.push('failure', `${doneCount - 1}`, describeError(error));
        return true;
      }
      return false;
    });
    if (failed) continue;
    const closed = printOutput(outcome);
    if (closed === null) return outcome;
    failures.push('closed', describeError(closed));
  }
  throw new Error(`the module needs more than ${RUNS_MAX} runs`);
}
