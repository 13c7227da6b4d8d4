import type { ReceiptResult } from './types.js';

/** The members of a problem document (RFC 9457). */
export interface ErrorMembers {
  status?: number;
  retryAfter?: number;
  param?: string;
  pointer?: string;
  requestId?: string;
  errors?: ReceiptResult[];
}

/** A failure of a call, with the members of the server's problem. `code` is that of the problem, or a code of the SDK. */
export class ParallaxError extends Error {
  declare readonly code: string;
  /** The HTTP status, 0 where no response arrived. */
  declare readonly status: number;
  /** True if the same request may succeed later. */
  declare readonly retryable: boolean;
  /** Seconds that the server asked the client to wait, or 0. */
  declare readonly retryAfter?: number;
  declare readonly param?: string;
  declare readonly pointer?: string;
  declare readonly requestId?: string;
  /** The rejected events of a batch. */
  declare readonly errors?: ReceiptResult[];

  constructor(code: string, detail: string, members: ErrorMembers = {}) {
    super(detail);
    const status = members.status ?? 0;
    Object.assign(this, members, { name: 'ParallaxError', code, status, retryable: RETRYABLE.test(status + code) });
  }
}

/** The statuses of the retry contract (`interface.md` section 10), and failures without a response. */
const RETRYABLE = /^(408|429|5(?!01|05)|0(network|timeout))/;

/** Makes the error of a refused request from the problem document. Any other body gives `bad_response`. */
export function errorOf({ status, headers }: Response, body: any): ParallaxError {
  const retryAfter = +headers.get('retry-after')! || 0;
  return new ParallaxError(body?.code ?? 'bad_response', body?.detail ?? `HTTP status ${status}`, { ...body, status, retryAfter });
}
