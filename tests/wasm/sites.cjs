// Random sites, from scratch and by changes of a real one.
'use strict';
const { readFileSync, readdirSync } = require('node:fs');
const path = require('node:path');

const COUNTRIES = ['DE', 'NO', 'SE', 'US', 'JP', 'BR'];
const PATHS = ['/', '/a', '/a/b', '/größe', '/p/{slug}', '/docs/{...rest}', '/x/{one}/y', '/a b'];
const PATTERNS = ['^de', 'en(-GB)?$', '[a-c]+', '\\d{2,4}', '(?:x|yy|zzz)*q', '\\bnews\\b', '^\\p{L}+$', '^/p/', '.{3}x', 'é|ü'];

// Returns the files of a directory as a map from path to text.
function readSite(directory) {
  const names = readdirSync(directory, { recursive: true }).filter((name) => name.endsWith('.json'));
  return new Map(names.sort().map((name) => [name.split(path.sep).join('/'), readFileSync(path.join(directory, name), 'utf8')]));
}

const leaf = (dice) =>
  dice.one([
    () => ({ country: dice.one(COUNTRIES) }),
    () => ({ country: { $in: dice.some(COUNTRIES, 0.5).concat('DE') } }),
    () => ({ locale: { $regex: dice.one(PATTERNS) } }),
    () => ({ 'device.type': dice.one(['mobile', 'desktop', 'tablet']) }),
    () => ({ 'device.browser': { $ne: dice.one(['Chrome', 'Safari', 'Firefox']) } }),
    () => ({ 'url.path': { [dice.one(['$regex', '$regexi', '$notRegex'])]: dice.one(PATTERNS) } }),
    () => ({ 'url.query.utm_source': { $ini: [dice.one(['n', 'NEWS', ''])] } }),
    () => ({ 'url.query.n': { $gte: dice.below(20) - 5 } }),
    () => ({ 'visitor.isReturning': dice.is(0.5) }),
    () => ({ 'now.hour': { $gte: dice.below(24) } }),
    () => ({ 'now.weekday': { $in: [1 + dice.below(7), 1 + dice.below(7)] } }),
    () => ({ 'lastTouch.source': { $exists: dice.is(0.5) } }),
    () => ({ [`traits.${dice.one(['plan', 'n', 'größe'])}`]: dice.one(['pro', 7, null, true, { $gt: 1.5 }, { $size: 2 }]) }),
    () => ({ 'pages./a': { $count: { $gte: 1 + dice.below(4), within: dice.one(['1h', '7d']) } } }),
    () => ({ 'events.Order': { $count: { $lt: 1 + dice.below(3) } } }),
  ])();

function condition(dice, depth, audiences) {
  if (depth > 0 && dice.is(0.4)) {
    const inner = () => Array.from({ length: 1 + dice.below(3) }, () => condition(dice, depth - 1, audiences));
    return dice.is(0.3) ? { $not: condition(dice, depth - 1, audiences) } : { [dice.one(['$and', '$or'])]: inner() };
  }
  return audiences.length > 0 && dice.is(0.2) ? { $audience: dice.one(audiences) } : leaf(dice);
}

function zone(dice, number, { audiences, experiment }) {
  const node = (id) => [{ id, type: dice.one(['Text', 'Hero', 'Grid']), props: { text: 'x'.repeat(dice.below(40)), n: dice.below(1e6) / 7, list: [1, 'é', null] } }];
  const variants = ['a', 'b', 'c'].slice(0, 1 + dice.below(3));
  const rules = Array.from({ length: dice.below(4) }, () => {
    const when = dice.is(0.7) ? { when: condition(dice, 2, audiences) } : audiences.length > 0 ? { audience: dice.one(audiences) } : { when: {} };
    return { ...when, variant: dice.one(variants) };
  });
  if (experiment) rules.push({ experiment: { key: experiment, variants: ['default', 'a'], ...(dice.is(0.5) && { weights: [0.3, 0.7] }) } });
  return { default: node(`n${number}`), variants: Object.fromEntries(variants.map((key) => [key, node(`n${number}-${key}`)])), rules };
}

// Returns a site that is made from nothing else than numbers.
function madeSite(dice, id) {
  const audiences = ['one', 'two', 'three'].slice(0, dice.below(4));
  const files = new Map();
  const site = { site: id, trackingId: `track_${id}`, name: `Site ${id}`, localDecisions: true, timeZone: dice.one(['Europe/Oslo', 'America/New_York', 'UTC', 'Asia/Kolkata']) };
  if (dice.is(0.3)) site.holdout = { share: 0.1, seed: 'q' };
  if (dice.is(0.3)) site.origins = ['https://www.example.com', 'https://*.example.org'];
  files.set('site.json', JSON.stringify(site, null, dice.below(3)));
  const named = audiences.map((key, at) => [key, { name: key, when: condition(dice, 2, audiences.slice(0, at)) }]);
  files.set('audiences.json', JSON.stringify(Object.fromEntries(named)));
  const items = Array.from({ length: dice.below(12) }, (_, n) => ({ id: `i${n}`, type: 'thing', fields: { slug: `s${n}`, price: dice.below(500) / 4, tags: dice.some(['x', 'y'], 0.5) } }));
  files.set('content/things.json', JSON.stringify(items));
  const where = dice.is(0.5) ? { price: { $gte: { $param: 'least' } } } : { tags: 'x' };
  const params = where.price ? { least: { type: 'number', optional: true } } : {};
  files.set('queries.json', JSON.stringify({ things: { collection: 'things', params, where, orderBy: [dice.one(['price', '-price', 'slug'])], limit: 1 + dice.below(10) } }));
  PATHS.filter((path, at) => at === 0 || dice.is(0.6)).forEach((path, number) => {
    const zones = { main: [{ id: 'm', type: 'Text', props: {} }] };
    if (dice.is(0.4)) zones.main.push({ id: 'q', type: 'List', props: {}, query: { id: 'things' } });
    for (let n = 0; n < 1 + dice.below(3); n += 1) zones[`z${n}`] = zone(dice, n, { audiences, experiment: dice.is(0.2) && `e${number}-${n}` });
    files.set(`routes/r${number}.json`, JSON.stringify({ path, layout: { root: { props: { title: path } }, zones } }, null, dice.below(2)));
  });
  return files;
}

// Changes texts, numbers and members at random, so that most sites have mistakes.
function spoilt(dice, files) {
  const change = (value) => {
    if (Array.isArray(value)) return dice.is(0.02) ? value.slice(1) : value.map(change);
    if (value !== null && typeof value === 'object') {
      const pairs = Object.entries(value).filter(() => !dice.is(0.002));
      return Object.fromEntries(pairs.map(([key, inner]) => [dice.is(0.001) ? `${key}x` : key, change(inner)]));
    }
    if (!dice.is(0.004)) return value;
    return dice.one([null, '', 'x', -1, 1.5, true, [], {}, 'ünknown', `${value}s`]);
  };
  return new Map([...files].map(([name, text]) => [name, dice.is(0.02) ? text.slice(0, dice.below(text.length)) : JSON.stringify(change(JSON.parse(text)), null, 1)]));
}

// Returns the files with another site ID.
function renamed(files, id) {
  const site = { ...JSON.parse(files.get('site.json')), site: id, trackingId: `track_${id}`, localDecisions: true };
  return new Map([...files, ['site.json', JSON.stringify(site)]]);
}

module.exports = { madeSite, readSite, renamed, spoilt };
