// An explained decision as a case of `parallax test`.

// The greatest number of events of a case.
const EVENTS_MAX = 1000;

const text = (at) => new Date(at).toISOString();

// The recorded occurrences of a name: the first one, and the others at the time of the last one. Their own times are not kept for long.
const occurrences = ({ count, first, last }, event) =>
  Array.from({ length: Math.min(count, EVENTS_MAX) }, (_, at) => ({ ...event, timestamp: text(at === 0 ? first : last) }));

// Returns the events of the past of a visitor, in the order of their times.
function eventsOf({ events, pages }) {
  const tracks = Object.entries(events).flatMap(([event, history]) => occurrences(history, { type: 'track', event }));
  const views = Object.entries(pages).flatMap(([path, history]) => occurrences(history, { type: 'page', properties: { path } }));
  return [...tracks, ...views].sort((a, b) => a.timestamp.localeCompare(b.timestamp)).slice(0, EVENTS_MAX);
}

// Adds the campaign or the referrer of a touch to the view of the page where it began.
function addTouch(events, touch) {
  const view = touch && events.find(({ properties }) => properties?.path === touch.landing);
  if (!view) return;
  const query = new URLSearchParams(['source', 'medium', 'campaign', 'term', 'content'].flatMap((name) => (touch[name] ? [[`utm_${name}`, touch[name]]] : [])));
  if (query.size > 0) view.properties.url = `https://site.example${touch.landing}?${query}`;
  if (touch.referrer) view.properties.referrer = touch.referrer;
}

// Returns a file of cases with one case: this visitor gets these variants. `agents` are user agents by type of device.
export function caseFile({ route, selected, visitor }, page, agents) {
  const { traits, locale, country, anonId, device, firstTouch, lastTouch } = visitor;
  const { userId, visits } = visitor.visitor;
  const events = eventsOf(visitor);
  addTouch(events, lastTouch);
  addTouch(events, firstTouch);
  if (userId && anonId) events.push({ type: 'identify', userId, timestamp: events.at(-1)?.timestamp });
  const members = { anonId, userId: anonId ? null : userId, userAgent: agents[device.type], locale, country };
  const given = Object.entries(members).filter(([, value]) => value);
  const known = { ...(events.length > 0 && { events }), ...(Object.keys(traits).length > 0 && { traits }) };
  return {
    cases: [
      {
        name: `${route} for a visitor of ${visits} ${visits === 1 ? 'visit' : 'visits'}`,
        now: text(visitor.now.at),
        path: route,
        ...(page && page !== route && { url: page }),
        visitor: { ...Object.fromEntries(given), ...known },
        expect: { variants: selected },
      },
    ],
  };
}
