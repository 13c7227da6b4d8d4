// The message IDs that the server in memory keeps.
'use strict';

// MESSAGE_IDS_MAX of src/hosted/server.rs.
const MESSAGE_IDS_MAX = 100_000;
// Events of a request. A request has at most 2,500.
const BATCH = 1_000;

function send(author, site, batch) {
  const body = JSON.stringify({ trackingId: `track_${site}`, batch });
  const request = `POST /v1/batch HTTP/1.1\r\nHost: a\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
  const response = author.call('answer', [Buffer.from(request)]).bytes.toString('utf8');
  return JSON.parse(response.slice(response.indexOf('\r\n\r\n')));
}

const eventOf = (number) => ({ type: 'track', event: 'E', anonId: 'v1', messageId: `m${number}` });

// Calls `differ` if another number of message IDs is kept.
function compareWindow(author, site, snapshot, differ) {
  for (const [count, duplicates] of [[MESSAGE_IDS_MAX - 1, 1], [MESSAGE_IDS_MAX, 1], [MESSAGE_IDS_MAX + 1, 0]]) {
    author.call('serve', [snapshot, Buffer.alloc(0), Buffer.alloc(0)]);
    for (let sent = 0; sent < count; sent += BATCH) {
      const batch = Array.from({ length: Math.min(BATCH, count - sent) }, (_, at) => eventOf(sent + at));
      const { accepted } = send(author, site, batch);
      if (accepted !== batch.length) differ(`${accepted} of ${batch.length} events are accepted`);
    }
    const receipt = send(author, site, [eventOf(0)]);
    if (receipt.duplicates !== duplicates) differ(`after ${count} message IDs the first one has ${receipt.duplicates} duplicates, expected ${duplicates}`);
  }
  return `the window of ${MESSAGE_IDS_MAX} message IDs: one below, at and above the limit`;
}

module.exports = { compareWindow };
