// Reads bodies of JSON within bounds.
import { Problem } from './problem.js';

/** Returns the text of a body, or null if it has more bytes. Rejects if it is not in UTF-8. */
export async function readText(message: Request | Response, bytesMax: number): Promise<string | null> {
  if (Number(message.headers.get('content-length')) > bytesMax) {
    await message.body?.cancel();
    return null;
  }
  const decoder = new TextDecoder('utf-8', { fatal: true });
  let [text, bytes] = ['', 0];
  const reader = message.body?.getReader();
  for (let part = await reader?.read(); reader && part && !part.done; part = await reader.read()) {
    bytes += part.value.length;
    if (bytes > bytesMax) {
      await reader.cancel();
      return null;
    }
    text += decoder.decode(part.value, { stream: true });
  }
  return text + decoder.decode();
}

/** The members of a JSON object. Only own members are read, so `__proto__` and `constructor` are unknown members as any others. */
export class Members {
  private readonly values: ReadonlyMap<string, unknown>;

  /** `names` are the members that the object can have. */
  constructor(value: unknown, names: readonly string[], private readonly place = 'The body') {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) throw invalid(`${place} is not a JSON object.`);
    this.values = new Map(Object.entries(value));
    for (const name of this.values.keys()) {
      if (!names.includes(name)) throw invalid(`${place} has the unknown member ${JSON.stringify(name.slice(0, 64))}.`);
    }
  }

  text(name: string): string {
    return this.optionalText(name) ?? this.refuse(name, 'a string');
  }

  /** Returns undefined for a missing member. */
  optionalText(name: string): string | undefined {
    const value = this.values.get(name);
    return value === undefined || typeof value === 'string' ? value : this.refuse(name, 'a string');
  }

  /** Returns undefined for a missing member. */
  optionalNumber(name: string): number | undefined {
    const value = this.values.get(name);
    return value === undefined || typeof value === 'number' ? value : this.refuse(name, 'a number');
  }

  textOrNull(name: string): string | null {
    return this.values.get(name) === null ? null : this.text(name);
  }

  /** Returns undefined for a missing member. */
  optionalObject(name: string): object | undefined {
    const value = this.values.get(name);
    if (value === undefined) return undefined;
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : this.refuse(name, 'an object');
  }

  array(name: string): unknown[] {
    const value = this.values.get(name);
    return Array.isArray(value) ? value : this.refuse(name, 'an array');
  }

  private refuse(name: string, expected: string): never {
    throw invalid(`${this.place} needs the member "${name}" as ${expected}.`);
  }
}

/** Reads the body of a request as JSON. */
export async function readBody(request: Request, bytesMax: number): Promise<unknown> {
  let text: string | null;
  try {
    text = await readText(request, bytesMax);
  } catch {
    throw invalid('The body ended early, or is not in UTF-8.');
  }
  if (text === null) throw new Problem(413, 'body_too_large', `The body has more than ${bytesMax} bytes.`);
  try {
    return JSON.parse(text);
  } catch {
    throw invalid('The body is not JSON.');
  }
}

function invalid(detail: string): Problem {
  return new Problem(400, 'invalid_body', detail);
}
