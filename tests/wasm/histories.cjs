// Compares the answers of a server, of the server in memory of a module, and of folds of one profile about the same visitors.
'use strict';
const { Connection } = require('./connection.cjs');
const { IDS, decisionOf, eventRequestOf } = require('./events.cjs');
const { outputsIn } = require('./module.cjs');
const { Dice } = require('./random.cjs');

// Requests that are on their way to the server at once.
const PIPELINED = 50;
// Requests of a site. Its visitors are new in both programs.
const OF_SITE = 1_000;
const EMPTY = Buffer.alloc(0);

// Splits a response into head and body. The head has no line that differs in each response, and no length of a body with a seq.
function partsOf(response) {
  const end = response.indexOf('\r\n\r\n') + 4;
  const lines = response.toString('latin1', 0, end).split('\r\n');
  return [lines.filter((line) => !/^(Date|X-Request-Id|Content-Length): /.test(line)).join('\r\n'), response.toString('utf8', end)];
}

// Returns a response to events. Its seqs count from `seqBefore`.
function receiptOf(response, seqBefore) {
  const [head, body] = partsOf(response);
  return head + body.replace(/"requestId":"[^"]*"/, '').replace(/"seq":"(\d+)"/g, (_, seq) => `"seq":${Number(seq) - seqBefore}`);
}

// Returns a decision without the milliseconds of the present.
const decided = (response) => partsOf(response).join('').replace(/"requestId":"[^"]*"/, '').replace(/"at":\d{13}\b/g, '');

// Returns a request whose receipt has the seq before all other events of a site.
function firstOf(site) {
  const body = JSON.stringify({ trackingId: `track_${site}`, type: 'track', event: 'First', anonId: 'first' });
  return Buffer.from(`POST /v1/track HTTP/1.1\r\nHost: a\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
}

// Returns the IDs that the events of a request name, and the one of each event whose profile a fold returns.
function namedIn(request) {
  const text = request.toString('utf8');
  const [head, body] = [text.slice(0, text.indexOf('\r\n\r\n')), text.slice(text.indexOf('\r\n\r\n') + 4)];
  let events = [];
  try {
    const parsed = JSON.parse(body);
    events = Array.isArray(parsed.batch) ? parsed.batch : [parsed];
  } catch {
    // A body that is no JSON names nothing.
  }
  const inQuery = /\?anonId=(\S+)/.exec(head)?.[1];
  const distinct = (ids) => [...new Set(ids.filter(Boolean))];
  return {
    anonIds: distinct(events.flatMap((event) => [event.anonId || inQuery, event.previousId])),
    userIds: distinct(events.map((event) => event.userId)),
    messageIds: distinct(events.map((event) => event.messageId)),
    visitors: events.map(({ anonId, userId }) => (anonId || inQuery ? ['anon', anonId || inQuery] : ['user', userId])),
  };
}

class Histories {
  // `differ` is called with the text of a difference. `author` is a server in memory, `folder` folds and decides.
  constructor({ author, folder, differ }, count) {
    Object.assign(this, { author, folder, differ, count, dice: new Dice(5), requests: 0, folds: 0, decisions: 0, statuses: {} });
  }

  async compare(server, sites) {
    this.connection = await Connection.open(server.url);
    // Each site is used once, because the server keeps its visitors.
    for (const [site, snapshot] of sites) {
      if (this.requests < this.count || this.folds < this.count) await this.#compareSite(site, snapshot);
    }
    this.connection.end();
    if (this.requests < this.count || this.folds < this.count) throw new Error(`${sites.length} sites are too few`);
    const statuses = Object.entries(this.statuses).map(([status, count]) => `${status}: ${count}`);
    return `${this.requests} requests with events compared (${statuses.join(', ')}), ${this.folds} folds, and ${this.decisions} decisions after them`;
  }

  async #compareSite(site, snapshot) {
    const started = [this.author.call('serve', [snapshot, EMPTY, EMPTY]), this.folder.call('open', [snapshot])];
    for (const { isOk, bytes } of started) if (!isOk) throw new Error(`${site}: ${bytes}`);
    const seen = { experiments: [], messageIds: [] };
    const first = await this.connection.send([firstOf(site)]);
    const seqBefore = Number(/"seq":"(\d+)"/.exec(first[0])[1]) - 1;
    this.author.call('answer', [firstOf(site)]);
    this.messageIds = new Set();
    for (let done = 0; done < OF_SITE; done += PIPELINED) {
      const requests = Array.from({ length: PIPELINED }, () => eventRequestOf(this.dice, site, seen));
      const expected = await this.connection.send(requests);
      requests.forEach((request, at) => this.#compareReceipt(site, request, expected[at], seqBefore));
      const isLast = done + PIPELINED >= OF_SITE;
      await this.#compareDecisions(site, isLast ? IDS : this.dice.some(IDS, 0.5), seen);
    }
    this.requests += OF_SITE;
  }

  #compareReceipt(site, request, expected, seqBefore) {
    const { anonIds, userIds, messageIds, visitors } = namedIn(request);
    const isRetry = messageIds.some((id) => this.messageIds.has(id));
    messageIds.forEach((id) => this.messageIds.add(id));
    const profile = (kind, id) => this.author.call('profile', [site, kind, String(id)].map((text) => Buffer.from(text))).bytes;
    const profiles = () => [...anonIds.map((id) => profile('anon', id)), ...userIds.map((id) => profile('user', id))];
    const before = profiles();
    const status = expected.toString('latin1', 9, 12);
    this.statuses[status] = (this.statuses[status] ?? 0) + 1;
    const found = this.author.call('answer', [request]).bytes;
    if (receiptOf(found, 0) !== receiptOf(expected, seqBefore)) this.differ(`${request}\nthe program answers\n${expected}\nand the module\n${found}`);
    // A fold knows one anonymous ID, and no earlier message IDs.
    if (anonIds.length > 1 || isRetry) return;
    const { isOk, bytes } = this.folder.call('fold', [request, ...before]);
    if (!isOk) throw new Error(`${request}\ncannot be folded: ${bytes}`);
    const [response, folded] = outputsIn(bytes);
    const seqless = (text) => receiptOf(text, 0).replace(/"seq":-?\d+/g, '"seq":');
    if (seqless(response) !== seqless(found)) this.differ(`${request}\nthe server in memory answers\n${found}\nand the fold\n${response}`);
    // The visitor is that of the last recorded event. If there is none, the first profile returns.
    const isUnchanged = profiles().every((profile, at) => profile.equals(before[at]));
    const expectedProfiles = [...visitors.map(([kind, id]) => profile(kind, id)), ...(isUnchanged ? [before[0] ?? EMPTY] : [])];
    if (!expectedProfiles.some((expected) => expected.equals(folded))) {
      const texts = expectedProfiles.map((profile) => profile.toString('latin1'));
      this.differ(`${request}\nthe profile is\n${texts.join('\n')}\nand that of the fold\n${folded.toString('latin1')}`);
    }
    this.folds += 1;
  }

  async #compareDecisions(site, ids, seen) {
    const requests = ids.map((id) => decisionOf(this.dice, site, id));
    const expected = await this.connection.send(requests);
    requests.forEach((request, at) => {
      const [kind, id] = ids[at];
      const found = this.author.call('answer', [request]).bytes;
      if (decided(found) !== decided(expected[at])) this.differ(`${request}\nthe program answers\n${expected[at]}\nand the module\n${found}`);
      // Problems of the module that decides have no permission for other origins.
      if (!expected[at].toString('latin1').startsWith('HTTP/1.1 200 ')) return;
      const profile = this.author.call('profile', [site, kind, id].map((text) => Buffer.from(text))).bytes;
      const local = this.folder.call('decide_with_profile', [profile, request]).bytes;
      if (decided(local) !== decided(found)) this.differ(`${request}\nthe server in memory answers\n${found}\nand the profile decides\n${local}`);
      this.decisions += 1;
      const experiments = /"experiments":"([^"]+)"/.exec(expected[at].toString('utf8'))?.[1];
      if (experiments) seen.experiments.push(experiments);
    });
  }
}

module.exports = { Histories };
