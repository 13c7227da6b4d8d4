import { cookiesOf } from './cookies.js';
import type { Consent } from './types.js';

export const CONSENT_COOKIE = 'px_consent';

/**
 * Reads the consent cookie: `0` neither, `p` personalize, `m` measure, `1` both. The first of these values counts. Another value alone
 * refuses both. `absent` is read in place of an absent cookie.
 */
export function consentOf(cookies: string, absent: string): Consent {
  const texts = cookiesOf(cookies, CONSENT_COOKIE);
  const text = texts.find((value) => /^[01mp]$/.test(value)) ?? texts[0] ?? absent;
  return { personalize: /^[1p]$/.test(text), measure: /^[1m]$/.test(text) };
}

/** Returns the value of the consent cookie. */
export function consentText({ personalize, measure }: Consent): string {
  return '0mp1'[+personalize * 2 + +measure]!;
}

export function defaultText(consentDefault: 'denied' | 'granted' | undefined): string {
  return consentDefault === 'denied' ? '0' : '1';
}
