// The state of the console, requests to the server, and numbers in words.
//
// The state is in the fragment of the URL, as `#page?name=value`. A fragment never reaches a server, so the link that a person
// opens or shares leaves no visitor ID in the log of a proxy or in a referrer.
import { useEffect, useLayoutEffect, useState } from './vendor/preact-htm.js';

export const FILTERS = ['segment', 'page', 'source', 'campaign', 'country', 'device', 'language', 'event', 'variant'];

// Parameters that stay when the page changes.
const SHARED = ['site', 'days', 'from', 'to', 'compare', 'by', 'bots', ...FILTERS];

function parse(fragment) {
  const [page, query] = fragment.replace(/^#/, '').split(/\?(.*)/s);
  return { page: page || 'overview', query: new URLSearchParams(query ?? '') };
}

// A shared link has its token in the fragment. It shows one page, which the server names, and none of its buttons changes the state.
const LINK = /^#link=(pxl_[\w-]+)$/;
const linkToken = LINK.exec(location.hash)?.[1];
let linkedState;

export const isLinked = linkToken !== undefined;

// Sets the page that the shared link shows.
export function showLinked(page) {
  linkedState = parse(page);
}

// Returns the address of the console with a shared link.
export const linkAddress = (token) => `${document.baseURI.split('#')[0]}#link=${token}`;

export const readState = () => linkedState ?? parse(location.hash);

// Returns the URL of a page with the shared parameters. `changes` sets parameters, null removes one, and an array repeats it.
export function pageUrl(page, changes = {}) {
  if (isLinked) return location.hash;
  const now = readState();
  const query = new URLSearchParams([...now.query].filter(([name]) => page === now.page || SHARED.includes(name)));
  for (const [name, value] of Object.entries(changes)) {
    query.delete(name);
    for (const item of [value ?? []].flat()) query.append(name, item);
  }
  const text = query.toString();
  return `#${page}${text && `?${text}`}`;
}

// Changes parameters of the present page.
export function change(changes) {
  location.hash = pageUrl(readState().page, changes);
}

// Adds the filter, or removes it if it is set.
export function toggleFilter(name, value) {
  const present = readState().query.getAll(name);
  change({ [name]: present.includes(value) ? present.filter((one) => one !== value) : [...present, value] });
}

// Returns the state, and renders again when it changes. A plain effect would begin to listen a frame after the first rendering, and
// miss a change in between.
export function useLocation() {
  const [state, setState] = useState(readState);
  useLayoutEffect(() => {
    const read = () => (LINK.test(location.hash) === isLinked ? setState(readState()) : location.reload());
    addEventListener('hashchange', read);
    return () => removeEventListener('hashchange', read);
  }, []);
  return state;
}

// Requests: all URLs are relative to the page, so that a proxy can mount the console below a path.

// A session of the tab keeps the token. The server has no cookie, so no other page can make the browser send the token. A proxy that
// signs people in has one, and the server checks the origin of their changes.
const TOKEN_KEY = 'parallax.token';

let askForToken = () => {};

// Sets the function that is called with the server's sentence when a token is missing or wrong.
export function onTokenNeeded(listener) {
  askForToken = listener;
}

export class Problem extends Error {
  constructor(status, { code, detail, title } = {}, retryAfter = null) {
    super(detail ?? title ?? `The server answered with status ${status}.`);
    Object.assign(this, { status, code, retryAfter });
  }
}

const storedToken = () => linkToken ?? sessionStorage.getItem(TOKEN_KEY);

// Without another rate limit, 429 on the admin address means too many wrong tokens.
const isTokenProblem = (status) => status === 401 || status === 429;

// A failed fetch has only the browser's words, such as "Failed to fetch".
function nameLostServer(error) {
  if (error.name === 'AbortError') throw error;
  throw Object.assign(new Error('The server does not answer. Is it running, and is the network up?'), { status: 0 });
}

// The part of an address after '#' names a visitor. It is sent as a header, because the log of a proxy has the URLs.
function send(address, token, { accept, ...init }) {
  const [url, visitor] = address.split('#');
  // The language of the operator's browser must not decide for the visitor of an explained page.
  const headers = {
    'Accept-Language': '*',
    ...(visitor && { 'X-Visitor': visitor }),
    ...(token && { Authorization: `Bearer ${token}` }),
    ...init.headers,
  };
  return fetch(new URL(url, document.baseURI), { cache: 'no-cache', credentials: 'same-origin', redirect: 'manual', ...init, headers }).catch(nameLostServer);
}

// A proxy whose session has ended answers with a redirect or a page for people. No endpoint does.
const isOfProxy = ({ type, status, headers }) =>
  type === 'opaqueredirect' || ([401, 403].includes(status) && /^text\/html/.test(headers.get('Content-Type') ?? ''));

async function problemOf(response) {
  return new Problem(response.status, await response.json().catch(() => undefined), response.headers.get('Retry-After'));
}

// Fetches a URL with the token. Throws a Problem if the response is one, but returns one with the status `accept`.
export async function request(url, init = {}) {
  const token = storedToken();
  const response = await send(url, token, init);
  if (isOfProxy(response)) throw new Error('You are signed out by the proxy. Load the console again.');
  if (response.ok || response.status === init.accept) return response;
  const problem = await problemOf(response);
  // A server without a token answers reads, and says in the answer to an erasure which flag is missing.
  if (isTokenProblem(response.status) && (token || !init.method) && token === storedToken()) {
    sessionStorage.removeItem(TOKEN_KEY);
    askForToken(token ? 'The token is not valid any more, for example because the server was started with another one.' : problem.message);
  }
  throw problem;
}

// Keeps the token if the server accepts it. Throws a Problem if not.
export async function signIn(token) {
  const response = await send('sites', token, {});
  if (isTokenProblem(response.status)) throw await problemOf(response);
  sessionStorage.setItem(TOKEN_KEY, token);
}

export const hasToken = () => !isLinked && storedToken() !== null;

export function signOut() {
  sessionStorage.removeItem(TOKEN_KEY);
}

// Returns a URL with these parameters. An array repeats a parameter. Null and '' leave it out. `visitor` has the parameter that
// names a visitor.
export function url(path, params, visitor) {
  const pairs = Object.entries(params).flatMap(([name, value]) => [value].flat().map((item) => [name, item]));
  const query = new URLSearchParams(pairs.filter(([, value]) => value !== null && value !== undefined && value !== ''));
  return `${path}?${query}${visitor ? `#${new URLSearchParams(visitor)}` : ''}`;
}

// Saves the body of a response as a file.
export async function download(address, name, accept) {
  const response = await request(address, accept ? { headers: { Accept: accept } } : {});
  saveAs(name, [await response.blob()]);
  return response;
}

export function saveAs(name, parts) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob(parts));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

function parseJson(text) {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error('The answer is not from Parallax. Does the proxy in front send requests to the admin address?');
  }
}

export const POLL_MS = 5000;

// The server is not ready, or cannot be reached. It may answer later.
export const isTemporary = ({ status }) => status === 503 || status === 0;

// The part of a wait that is added at random at most, so that panels that failed together do not ask again together.
const SPREAD = 0.25;

// Returns the milliseconds after which a temporary error is asked again: the seconds of Retry-After, or the time of a poll if it has
// none, such as a date. They are at most a day, because a timer of a browser ends at once if it has more than 24 days.
export function waitMs({ retryAfter }) {
  const wait = retryAfter >= 1 ? Math.min(1000 * retryAfter, DAY_MS) : POLL_MS;
  return wait * (1 + SPREAD * Math.random());
}

// The requests of the page that is shown.
const shown = new Set();

// Returns the addresses of the numbers that the page shows.
export const shownNumbers = () => [...new Set([...shown].map(({ address }) => address))].filter((address) => address.startsWith('insights/'));

// Fetches a URL and returns { data, error, isLoading }. While the next answer loads, and after an error, `data` is the last one, which
// can be that of another address. Null as the address asks nothing and returns {}. `every` polls as many milliseconds after an answer,
// but not while the tab is hidden. A temporary error is asked again in any case.
export function useAnswer(address, { every, isText, accept } = {}) {
  const [state, setState] = useState({});
  useEffect(() => {
    if (address === null) return undefined;
    const entry = { address };
    shown.add(entry);
    const abort = new AbortController();
    let timer;
    const loadIn = (ms) => {
      if (ms === undefined || abort.signal.aborted) return;
      timer = setTimeout(() => (document.hidden ? loadIn(POLL_MS) : load()), ms);
    };
    const load = () => {
      request(address, { signal: abort.signal, accept })
        .then((response) => response.text())
        .then((text) => {
          // The same answer changes nothing, so that nothing is drawn again.
          setState((last) =>
            last.text === text && last.address === address && !last.error ? last : { data: isText ? text : parseJson(text), text, address },
          );
          loadIn(every);
        })
        .catch((error) => {
          if (abort.signal.aborted) return;
          setState((last) => ({ ...last, error, address }));
          loadIn(isTemporary(error) ? waitMs(error) : every);
        });
    };
    load();
    return () => {
      shown.delete(entry);
      abort.abort();
      clearTimeout(timer);
    };
  }, [address, every, isText, accept]);
  if (address === null) return {};
  return state.address === address ? state : { ...state, error: undefined, isLoading: true };
}

// Words: the texts are English, so numbers and dates are too.

const LOCALE = 'en-GB';
const whole = new Intl.NumberFormat(LOCALE);
const short = new Intl.NumberFormat(LOCALE, { notation: 'compact', maximumFractionDigits: 1 });

export const count = (value) => (value === null || value === undefined ? '–' : whole.format(value));
export const shortCount = (value) => (Math.abs(value) < 100_000 ? whole.format(value) : short.format(value));

// Returns one number with its noun: "1 visitor", "2 visitors".
export const counted = (value, noun) => `${count(value)} ${noun}${value === 1 ? '' : 's'}`;

export const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

// A share that an author wrote, such as 0.125 or 0.005, with all its digits. A third has one digit.
export function writtenPercent(share) {
  const exact = Number((share * 100).toFixed(10));
  return String(exact).length > 8 ? percent(share) : `${exact} %`;
}

// Rounds first, so that a small negative change is "0.0 %" and not "-0.0 %".
export function percent(share, digits = 1) {
  if (share === null || share === undefined || !Number.isFinite(share)) return '–';
  const rounded = Number((share * 100).toFixed(digits));
  return `${(rounded === 0 ? 0 : rounded).toFixed(digits).replace('-', '−')} %`;
}

// Writes an amount with two decimals. A small negative one is "0.00" and not "-0.00".
export const amount = (value) => (typeof value === 'number' ? value.toFixed(2).replace(/^-(?=0\.00$)/, '') : '–');

const money = ({ currency, sum }) => `${count(sum)}${currency === null ? '' : ` ${currency}`}`;

// Writes the amounts of a goal. Amounts of several currencies are listed.
export function valueInWords({ value }, { currencies }) {
  if (value === null) return '–';
  return currencies.length > 0 ? currencies.map(money).join(', ') : '0';
}

// Returns a change with its sign, and the direction as 1, 0 or -1.
export function relativeChange(now, before) {
  if (!before) return { text: now ? 'new' : '–', direction: 0 };
  const text = percent(now / before - 1);
  const direction = text === '0.0 %' ? 0 : Math.sign(now - before);
  return { text: direction > 0 ? `+${text}` : text, direction };
}

export const signedPercent = (share) => {
  const text = percent(share);
  return share > 0 && text !== '0.0 %' ? `+${text}` : text;
};

const formats = new Map();

function formatter(timeZone, options) {
  const key = `${timeZone} ${JSON.stringify(options)}`;
  if (!formats.has(key)) formats.set(key, new Intl.DateTimeFormat(LOCALE, { timeZone, ...options }));
  return formats.get(key);
}

const DAY = { day: 'numeric', month: 'short', year: 'numeric' };
const MINUTE = { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' };
const BUCKETS = {
  hour: { weekday: 'short', day: 'numeric', month: 'short', ...MINUTE },
  day: { weekday: 'short', ...DAY },
  week: DAY,
  month: { month: 'long', year: 'numeric' },
};

export const day = (time, timeZone) => formatter(timeZone, DAY).format(new Date(time));
// Returns the first and the last day, without what both share.
export const daysBetween = (first, last, timeZone) => formatter(timeZone, DAY).formatRange(new Date(first), new Date(last));
export const dateTime = (time, timeZone) => formatter(timeZone, { ...DAY, ...MINUTE, second: '2-digit' }).format(new Date(time));
export const clockTime = (time, timeZone) => formatter(timeZone, MINUTE).format(new Date(time));

// Returns the name of a bucket that begins at `t`, in seconds since 1970.
export function bucketName(t, by, timeZone) {
  const text = formatter(timeZone, BUCKETS[by] ?? BUCKETS.day).format(new Date(t * 1000));
  return by === 'week' ? `Week of ${text}` : text;
}

const HOUR_S = 3600;
const DAY_S = 24 * HOUR_S;
const MONTH_S = 28 * DAY_S;

// Returns the text at a tick of a time axis whose ticks have the distance `step`. All are in seconds.
export function axisTime(t, step, timeZone) {
  const time = new Date(t * 1000);
  if (step >= MONTH_S) return formatter(timeZone, { month: 'short', year: 'numeric' }).format(time);
  const text = clockTime(time, timeZone);
  return step >= DAY_S || text === '00:00' ? formatter(timeZone, { day: 'numeric', month: 'short' }).format(time) : text;
}

// Returns the date of an instant as the API takes it, such as 2026-01-05.
export function isoDate(time, timeZone) {
  return new Intl.DateTimeFormat('en-CA', { timeZone, year: 'numeric', month: '2-digit', day: '2-digit' }).format(new Date(time));
}

const DAY_MS = 1000 * DAY_S;

// Returns the date so many days after a date, or undefined if it is none.
export function shiftDate(date, days) {
  const time = Date.parse(date);
  return Number.isNaN(time) ? undefined : new Date(time + days * DAY_MS).toISOString().slice(0, 10);
}

// A day has 23 or 25 hours when the clock changes, so the date is shifted and not the time.
export const tomorrow = (time, timeZone) => shiftDate(isoDate(time, timeZone), 1);

export function ago(time) {
  const passed = (Date.now() - new Date(time)) / 1000;
  const [size, unit] = [
    [86400, 'day'],
    [3600, 'hour'],
    [60, 'minute'],
    [1, 'second'],
  ].find(([size]) => passed >= size) ?? [1, 'second'];
  return `${counted(Math.max(0, Math.floor(passed / size)), unit)} ago`;
}

const names = {
  country: new Intl.DisplayNames([LOCALE], { type: 'region' }),
  language: new Intl.DisplayNames([LOCALE], { type: 'language' }),
};

// Names a country or a language. A code that the browser does not know, and any other value, stays as it is.
export function named(kind, code) {
  try {
    return names[kind]?.of(code) ?? code;
  } catch {
    return code;
  }
}
