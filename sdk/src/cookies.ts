/** Returns the first cookie of this name, as Edge does. A value with valid escapes is decoded. */
export function cookieOf(header: string, name: string): string | undefined {
  const value = header
    .split(/;\s*/)
    .find((pair) => pair.startsWith(`${name}=`))
    ?.slice(name.length + 1);
  try {
    return value && decodeURIComponent(value);
  } catch {
    return value;
  }
}

/** Returns a `Set-Cookie` value of the SDK, which is also the form of `document.cookie`. */
export function cookieText(name: string, value: string, maxAge: number, domain?: string, isSecure?: boolean): string {
  return `${name}=${value}; Path=/; SameSite=Lax; Max-Age=${maxAge}${domain ? `; Domain=${domain}` : ''}${isSecure ? '; Secure' : ''}`;
}
