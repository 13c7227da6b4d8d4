// Random requests to a site, also wrong ones.
'use strict';

const AGENTS = [
  'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36',
  'Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Mobile/15E148 Safari/604.1',
  'Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)',
  'curl/8.0',
];
const PATHS = ['/', '/', '/', '/', '/', '/a', '/a/b', '/gr%C3%B6%C3%9Fe', '/p/x', '/docs/a/b/c', '/x/1/y', '/none', '//', 'a', '/products/erle-2', '/tents', '/magazine', '/%25'];
const VARIANTS = ['', 'z0:a', 'z0:b,z1:a', 'hero:deutsch', 'hero:none', 'z0', ':', 'z0:default'];

function paramsOf(dice, id) {
  const params = [dice.is(0.95) ? `trackingId=track_${id}` : dice.one(['site=none', 'trackingId=track_none', `site=${id}`, ''])];
  const add = (share, name, values) => dice.is(share) && params.push(`${name}=${encodeURIComponent(dice.one(values))}`);
  add(0.95, 'route', PATHS);
  add(0.5, 'anonId', ['v1', 'v2', 'a b', 'x'.repeat(200), '']);
  add(0.1, 'userId', ['u1', '']);
  add(0.5, 'country', ['DE', 'NO', 'us', '??', 'XX']);
  add(0.4, 'locale', ['de-DE', 'en-GB', 'nn', '']);
  add(0.4, 'url', ['https://example.com/a?utm_source=news&n=7', 'https://example.com/p/x?n=-2#a', 'no url', 'https://example.com/GRÖßE']);
  add(0.2, 'referrer', ['https://www.google.com/', 'https://example.com/x', '']);
  add(0.2, 'variants', VARIANTS);
  add(0.1, 'override', VARIANTS);
  add(0.1, 'explain', ['1', '0', 'x']);
  add(0.1, 'personalize', ['0', '1']);
  add(0.1, 'include', ['combinations', 'x']);
  add(0.02, 'unknown', ['1']);
  return params;
}

function targetOf(dice, id) {
  const params = paramsOf(dice, id);
  const kind = dice.random();
  if (kind < 0.45) return `/v1/variants?${params.join('&')}`;
  if (kind < 0.75) return `/v1/resolve?${params.join('&')}`;
  if (kind < 0.83) return `/v1/query?${params[0]}&id=${dice.one(['things', 'products', 'none'])}&${dice.one(['least=20', 'params.least=3', 'limit=3', 'x'])}`;
  if (kind < 0.9) return `/v1/routes?${params[0]}${dice.one(['', '&limit=3', '&since=1', '&limit=x', '&after=x'])}`;
  if (kind < 0.94) return `/v1/site?${params[0]}`;
  return dice.one(['/v1/openapi.json', '/v1/parallax.js', '/v1/problems/invalid_param', '/v1/none', '/', '/v1/resolve']);
}

// Returns the text of a request. `etags` are those of earlier responses.
function requestOf(dice, id, etags) {
  const method = dice.is(0.9) ? 'GET' : dice.one(['HEAD', 'OPTIONS', 'PUT', 'DELETE', 'POST']);
  const lines = ['Host: www.example.com'];
  const add = (share, name, values) => dice.is(share) && lines.push(`${name}: ${dice.one(values)}`);
  add(0.6, 'User-Agent', AGENTS);
  add(0.4, 'Accept-Language', ['de-DE,de;q=0.9', 'en', '*', 'zz;q=']);
  add(0.4, 'Accept-Encoding', ['gzip', 'gzip, br', 'identity', 'gzip;q=0', '*']);
  add(0.2, 'Origin', ['https://www.example.com', 'https://a.example.org', 'null']);
  add(0.1, 'Sec-GPC', ['1']);
  add(0.1, 'Cookie', ['plx_anon=v1', 'a=b; c=%20']);
  add(0.1, 'X-Request-Id', ['own-id-1', 'a b']);
  add(0.1, 'Referer', ['https://example.com/a?utm_source=news']);
  add(0.3, 'If-None-Match', etags.length > 0 ? etags : ['"x"']);
  const body = method === 'POST' ? dice.one(['', '{}', `{"trackingId":"track_${id}","id":"things","params":{"least":3}}`, '{"a":', '[]']) : '';
  if (method === 'POST') lines.push('Content-Type: application/json', `Content-Length: ${Buffer.byteLength(body)}`);
  return Buffer.from(`${method} ${targetOf(dice, id)} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n${body}`);
}

module.exports = { AGENTS, requestOf };
