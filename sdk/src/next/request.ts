import type { NextRequest } from 'next/server.js';

/** Returns the base path of the site. The type of a route handler's request does not tell that it is one of Next.js. */
export function basePathOf(request: Request): string {
  return (request as Partial<Pick<NextRequest, 'nextUrl'>>).nextUrl?.basePath ?? '';
}
