const encoder = new TextEncoder();

async function digestOf(text: string): Promise<Uint8Array> {
  return new Uint8Array(await crypto.subtle.digest('SHA-256', encoder.encode(text)));
}

/** Compares a secret in constant time. An absent secret equals nothing. */
export async function isSecret(secret: string | undefined, given: string | null | undefined): Promise<boolean> {
  if (!secret || !given) return false;
  const [expected, actual] = await Promise.all([digestOf(secret), digestOf(given)]);
  return expected.reduce((difference, byte, i) => difference | (byte ^ actual[i]!), 0) === 0;
}

/** Returns whether the request has `Authorization: Bearer <secret>`. */
export function isBearer(request: Request, secret: string | undefined): Promise<boolean> {
  const [, token] = /^Bearer (.+)$/i.exec(request.headers.get('authorization') ?? '') ?? [];
  return isSecret(secret, token);
}
