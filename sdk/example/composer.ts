// The settings of the composer, and its sign-in.
import { Buffer } from 'node:buffer';

interface ComposerSettings {
  /** The directory of the site: `site.json`, `routes/` and so on. */
  directory: string;
  /** The e-mail address of the person who may sign in. */
  email: string;
  /** SHA-256 of the password, in hexadecimal digits. */
  passwordHash: string;
  /** The origin of the site in browsers. Absent: that of the URLs that Next.js makes, `http://localhost:3000`. */
  origin?: string;
  /** The server that counts audiences and explains decisions. */
  parallax?: { adminUrl: string; token: string };
}

/** Null if the composer is off. */
export const composer = settings();

function settings(): ComposerSettings | null {
  const { SITE_DIRECTORY: directory, COMPOSER_USER: email, COMPOSER_PASSWORD_SHA256: passwordHash } = process.env;
  const { COMPOSER_ORIGIN: origin, ADMIN_URL: adminUrl, ADMIN_TOKEN: token } = process.env;
  if (!directory && !email && !passwordHash) return null;
  if (!directory || !email || !passwordHash || !/^[0-9a-f]{64}$/.test(passwordHash)) {
    console.warn('The composer is off. It needs SITE_DIRECTORY, COMPOSER_USER and COMPOSER_PASSWORD_SHA256, which has 64 hexadecimal digits.');
    return null;
  }
  return { directory, email, passwordHash, origin, parallax: adminUrl && token ? { adminUrl, token } : undefined };
}

/** Returns the person who has signed in by HTTP Basic, or null. A site with a sign-in of its own reads its session here. */
export async function personOf(request: Request): Promise<{ name: string; email: string } | null> {
  const [email, password] = credentialsOf(request) ?? [];
  if (!composer || email === undefined || password === undefined) return null;
  const [given, wanted] = await Promise.all([sha256(email), sha256(composer.email)]);
  const isRight = [isEqual(given, wanted), isEqual(await sha256(password), composer.passwordHash)].every(Boolean);
  return isRight ? { name: email.split('@')[0]!, email } : null;
}

/** Returns the name and the password of HTTP Basic (RFC 7617), which are in UTF-8. */
function credentialsOf(request: Request): [string, string] | null {
  const [, encoded] = /^Basic ([A-Za-z0-9+/]+={0,2})$/i.exec(request.headers.get('authorization') ?? '') ?? [];
  if (!encoded) return null;
  const text = Buffer.from(encoded, 'base64').toString();
  const colon = text.indexOf(':');
  return colon < 0 ? null : [text.slice(0, colon), text.slice(colon + 1)];
}

async function sha256(text: string): Promise<string> {
  return Buffer.from(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text))).toString('hex');
}

/** Compares two digests in a time that does not depend on their first difference. */
const isEqual = (a: string, b: string) => [...a].reduce((sum, digit, at) => sum | (digit.charCodeAt(0) ^ b.charCodeAt(at)), 0) === 0;
