// Runs the program of Parallax.
import { spawn } from 'node:child_process';
import { StorageError } from './errors.js';
import { PROGRAM_MS, PROGRAM_OUTPUT_BYTES_MAX } from './limits.js';

/** The variables that the program gets. It sees no other one, and so no secret of the app. */
const VARIABLES = ['PATH', 'HOME', 'TMPDIR', 'LANG', 'SystemRoot'];

export interface Ended {
  /** Null if the program was ended by a signal. */
  code: number | null;
  output: string;
  errors: string;
}

/** Runs the program to its end. Rejects if it cannot be started, or runs for too long. Output over the bound is dropped. */
export function runProgram(program: string, words: string[], env: Record<string, string> = {}): Promise<Ended> {
  const inherited = VARIABLES.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name]!] as const]));
  const child = spawn(program, words, { env: { ...Object.fromEntries(inherited), ...env } as NodeJS.ProcessEnv, stdio: ['ignore', 'pipe', 'pipe'] });
  const texts = [child.stdout, child.stderr].map(boundedText);
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      child.kill('SIGKILL');
      // A process that it started may keep its output open.
      child.stdout.destroy();
      child.stderr.destroy();
      reject(new StorageError('publish_timeout', `The program did not end within ${PROGRAM_MS / 1000} s, and was stopped.`));
    }, PROGRAM_MS);
    child.once('error', (cause) => {
      clearTimeout(timer);
      reject(new StorageError('publish_failed', 'The program of Parallax cannot be started. Check the option "program".', { cause }));
    });
    child.once('close', (code) => {
      clearTimeout(timer);
      resolve({ code, output: texts[0]!(), errors: texts[1]!() });
    });
  });
}

/** Collects the first bytes of a stream. Returns a function that returns their text. */
function boundedText(stream: NodeJS.ReadableStream): () => string {
  const parts: Buffer[] = [];
  let bytes = 0;
  stream.on('data', (part: Buffer) => {
    const kept = part.subarray(0, PROGRAM_OUTPUT_BYTES_MAX - bytes);
    bytes += kept.length;
    if (kept.length > 0) parts.push(kept);
  });
  return () => Buffer.concat(parts).toString('utf8');
}
