// Compares decisions by the rules file and a visitor token with those of a server.
'use strict';
const { spawnSync } = require('node:child_process');
const { Connection } = require('./connection.cjs');
const { IDS } = require('./events.cjs');
const { Dice } = require('./random.cjs');
const { AGENTS } = require('./requests.cjs');

// Requests that are on their way to the server at once.
const PIPELINED = 50;
const PATHS = ['/', '/', '/', '/', '/a', '/a/b', '/p/x', '/docs/a/b', '/none', '//', '/tents', '/old'];

// Returns the parameters and the header lines of a request about a visitor.
function requestOf(dice, site, [kind, id]) {
  const params = [`trackingId=track_${site}`, `${kind}Id=${id}`];
  const lines = ['Host: www.example.com'];
  const add = (share, name, values) => dice.is(share) && params.push(`${name}=${encodeURIComponent(dice.one(values))}`);
  const send = (share, name, values) => dice.is(share) && lines.push(`${name}: ${dice.one(values)}`);
  add(0.99, 'route', PATHS);
  add(0.5, 'country', ['DE', 'NO', 'us', '??']);
  add(0.4, 'locale', ['de-DE', 'en-GB', 'nn']);
  add(0.5, 'url', ['https://example.com/a?utm_source=news&n=7', 'https://example.com/p/x?n=-2#a', 'no url']);
  add(0.2, 'referrer', ['https://www.google.com/', 'https://example.com/x']);
  add(0.1, 'personalize', ['0', '1']);
  add(0.05, 'override', ['z0:a', 'z0:b,z1:a', 'hero:none']);
  send(0.7, 'User-Agent', AGENTS);
  send(0.3, 'Accept-Language', ['de-DE,de;q=0.9', 'en']);
  send(0.05, 'Sec-GPC', ['1']);
  const text = (last) => Buffer.from(`GET /v1/variants?${params.join('&')}${last} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`);
  return { withToken: text('&visitor=1'), plain: text('') };
}

// Splits the response to a request with `visitor=1` into its status, its token, and the body without the token.
function answerIn(response) {
  const text = response.toString('utf8');
  const body = text.slice(text.indexOf('\r\n\r\n') + 4);
  const token = /,"visitorToken":(?:"([^"]*)"|null)/.exec(body);
  return { status: text.slice(9, 12), token: token?.[1] ?? '', body: token ? body.replace(token[0], '') : body };
}

// Returns a token that must not count, or null.
function forgedToken(dice, token, others) {
  const at = dice.below(token.length);
  const forged = dice.one([
    () => token.slice(0, at),
    () => token.slice(0, at) + dice.one(['A', '_', '.', 'é', '~']) + token.slice(at + 1),
    () => `${token}A`,
    () => dice.one(others) ?? 'x',
    () => 'x'.repeat(1 + dice.below(5000)),
  ])();
  return forged === token || forged === '' ? null : forged;
}

class LocalDecisions {
  // `rules` is a module that decides, and `differ` is called with the text of a difference.
  constructor({ parallax, keyFile, rules, differ }, count) {
    Object.assign(this, { parallax, keyFile, rules, differ, count, dice: new Dice(7), decided: 0, withToken: 0, refused: 0, forged: 0 });
  }

  async compare(server, sites) {
    const connection = await Connection.open(server.url);
    // Tokens of other visitors and other sites.
    let others = [];
    for (let turn = 0; this.decided < this.count; turn += 1) {
      const [site] = sites[turn % sites.length];
      await this.#openRules(connection, site);
      for (let batch = 0; batch < 20; batch += 1) {
        const requests = Array.from({ length: PIPELINED }, () => requestOf(this.dice, site, this.dice.one(IDS)));
        const answers = (await connection.send(requests.map(({ withToken }) => withToken))).map(answerIn);
        for (const [at, answer] of answers.entries()) await this.#compareOne(connection, requests[at], answer, others);
        others = answers.map(({ token }) => token).filter(Boolean);
      }
    }
    connection.end();
    return `${this.decided} local decisions compared, ${this.withToken} of them by a token, ${this.refused} left to Edge, and ${this.forged} tokens that do not count`;
  }

  async #openRules(connection, site) {
    const [response] = await connection.send([Buffer.from(`GET /v1/rules?trackingId=track_${site} HTTP/1.1\r\nHost: a\r\n\r\n`)]);
    const keys = spawnSync(this.parallax, ['visitor-keys', this.keyFile, site]).stdout;
    const { isOk, bytes } = this.rules.call('open_rules', [response.subarray(response.indexOf('\r\n\r\n') + 4), keys]);
    if (!isOk || JSON.parse(bytes).site !== site) throw new Error(`${site}: ${bytes}`);
  }

  async #compareOne(connection, request, answer, others) {
    const local = this.rules.call('decide', [Buffer.from(answer.token), request.plain]);
    if (answer.status !== '200') {
      this.refused += 1;
      const { code } = JSON.parse(answer.body);
      if (local.isOk || !`${local.bytes}`.startsWith(`${code}: `)) this.differ(`${request.plain}\nEdge refuses with ${code}, and the module says ${local.bytes}`);
      return;
    }
    this.decided += 1;
    this.withToken += answer.token !== '';
    if (!local.isOk || `${local.bytes}` !== answer.body) {
      // Midnight or the end of a visit can be between the two decisions. Both decide once more.
      const again = answerIn((await connection.send([request.withToken]))[0]);
      const second = this.rules.call('decide', [Buffer.from(again.token), request.plain]);
      if (!second.isOk || `${second.bytes}` !== again.body) this.differ(`${request.plain}\nEdge decides\n${again.body}\nand the module\n${second.bytes}`);
    }
    if (answer.token === '' || !this.dice.is(0.1)) return;
    const forged = forgedToken(this.dice, answer.token, others.filter((token) => token !== answer.token));
    if (forged === null) return;
    this.forged += 1;
    const believed = this.rules.call('decide', [Buffer.from(forged), request.plain]);
    const isRight = !believed.isOk && `${believed.bytes}`.startsWith('visitor_token_');
    // A token of the same visitor from an earlier request is valid.
    if (!isRight && !others.includes(forged)) this.differ(`${request.plain}\nthe module believes the token ${forged}`);
  }
}

module.exports = { LocalDecisions };
