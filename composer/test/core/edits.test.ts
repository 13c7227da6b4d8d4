import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { patch } from '../../src/core/index.js';
import { COMPOSER, DEMO, differences, examplesOf } from './texts.js';

const GOLDEN = path.join(COMPOSER, 'test/golden/edits.txt');

/** A file and a change of its value. */
type Edit = [title: string, file: string, change: (value: any) => unknown];

const hero = (page: any) => page.layout.zones.hero;
const front = (page: any) => page.layout.zones.main;
const text = (id: string, words: string) => ({ id, type: 'Text', props: { text: words } });

/** Inserts a member after another one. */
function insertAfter(object: any, after: string, name: string, member: unknown): void {
  const entries = Object.entries(object);
  for (const key of Object.keys(object)) delete object[key];
  for (const [key, value] of entries) {
    object[key] = value;
    if (key === after) object[name] = member;
  }
}

function rename(object: any, from: string, to: string): void {
  insertAfter(object, from, to, object[from]);
  delete object[from];
}

/** Returns a copy of a value in which each node has another ID. */
function copyWithIds(value: any): any {
  if (Array.isArray(value)) return value.map(copyWithIds);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).map(([name, member]) => [name, name === 'id' && 'type' in value ? `${member}-copy` : copyWithIds(member)]);
  return Object.fromEntries(entries);
}

const EDITS: Edit[] = [
  ['change a text prop', 'routes/index.json', (page) => (hero(page).default[0].props.title = 'Made for the fourth day')],
  ['change a text prop of a node on one line', 'routes/index.json', (page) => (front(page)[1].props.title = 'Just in')],
  ['change a text with a no-break space', 'routes/sale.json', (page) => (page.layout.zones.opening.variants.code[0].props.title = '20\u00a0% more')],
  ['change a number', 'routes/index.json', (page) => (front(page)[0].props.gap = 32)],
  ['change a price among prices with two digits', 'routes/sale.json', (page) => (page.layout.zones.main[0].props.items[0].price = 2990)],
  ['add a prop', 'routes/index.json', (page) => (hero(page).default[0].props.size = 'large')],
  ['add a prop to a node on one line', 'routes/index.json', (page) => (front(page)[2].props.limit = 3)],
  ['add the first prop', 'routes/pricing', (page) => (page.layout.zones.main[0].props.gap = 2)],
  ['remove a prop', 'routes/index.json', (page) => delete hero(page).default[0].props.image],
  ['remove the last prop', 'routes/index.json', (page) => delete hero(page).default[0].props.actions],
  ['add an item to a list of objects on one line', 'routes/index.json', (page) =>
    hero(page).default[0].props.actions.push({ label: 'Find a store', href: '/stores', kind: 'quiet' })],
  ['add a name to a list in several lines', 'queries.json', (queries) => queries.products.select.push('retired')],
  ['add a node at the end', 'routes/index.json', (page) => front(page).push(text('front-end', 'That is all.'))],
  ['add a node first', 'routes/index.json', (page) => front(page).unshift(text('front-begin', 'Good morning.'))],
  ['add a node that needs lines', 'routes/index.json', (page) =>
    front(page).splice(1, 0, {
      id: 'quotes',
      type: 'Quotes',
      props: { title: 'What they say', quotes: [{ by: 'Siri', text: 'It rained, and I slept.' }, { by: 'Håkon', text: 'I carried nothing twice.' }] },
    })],
  ['add a node to a zone on one line', 'routes/index.json', (page) =>
    front(page)[0].zones.promo.default.push({ id: 'promo-new', type: 'Banner', props: { title: 'New' } })],
  ['empty a zone and add another one', 'routes/pricing', (page) => Object.assign(page.layout.zones.main[0].zones, { left: [], right: [text('r', 'Right')] })],
  ['add a container with nodes', 'routes/pricing', (page) =>
    page.layout.zones.main.push({ id: 'c', type: 'Columns', props: {}, zones: { left: [text('l', 'Left')], right: [] } })],
  ['remove a node', 'routes/index.json', (page) => front(page).splice(2, 1)],
  ['remove the last node', 'routes/index.json', (page) => front(page).pop()],
  ['move a node in its zone', 'routes/index.json', (page) => front(page).splice(0, 0, ...front(page).splice(3, 1))],
  ['move a node into another zone', 'routes/index.json', (page) => front(page)[0].zones.left.push(...front(page).splice(1, 1))],
  ['move a node in lines to another depth', 'routes/index.json', (page) => front(page).push(front(page)[0].zones.left.pop())],
  ['move a node and change it', 'routes/index.json', (page) => {
    const [node] = front(page).splice(3, 1);
    front(page)[0].zones.left.unshift({ ...node, props: { ...node.props, title: 'One letter' } });
  }],
  ['wrap a node in a container', 'routes/index.json', (page) =>
    (front(page)[1] = { id: 'box', type: 'Box', props: {}, zones: { inner: [front(page)[1]] } })],
  ['duplicate a node', 'routes/index.json', (page) => front(page).splice(2, 0, copyWithIds(front(page)[1]))],
  ['change the ID of a node', 'routes/index.json', (page) => (front(page)[1].id = 'front-latest')],
  ['add a variant', 'routes/index.json', (page) => (hero(page).variants.evening = [{ id: 'hero-evening', type: 'Hero', props: { title: 'Good evening' } }])],
  ['add a variant as a copy', 'routes/index.json', (page) => insertAfter(hero(page).variants, 'slow', 'slower', copyWithIds(hero(page).variants.slow))],
  ['add a variant as a copy of one on one line', 'routes/pricing', (page) => insertAfter(hero(page).variants, 'back', 'again', copyWithIds(hero(page).variants.back))],
  ['add a variant to variants on one line', 'routes/signup', (page) =>
    (page.layout.zones.cta.variants.go = [{ id: 'cta', type: 'Button', props: { label: 'Go' } }])],
  ['remove a variant and its rule', 'routes/index.json', (page) => (delete hero(page).variants.deutsch, hero(page).rules.shift())],
  ['rename a variant', 'routes/index.json', (page) => (rename(hero(page).variants, 'deutsch', 'german'), (hero(page).rules[0].variant = 'german'))],
  ['personalize a zone', 'routes/about.json', (page) => {
    const [name] = Object.keys(page.layout.zones);
    const zone = page.layout.zones[name!];
    page.layout.zones[name!] = { default: zone, variants: { night: [text('night', 'It is late.')] }, rules: [{ audience: 'late-evening', variant: 'night' }] };
  }],
  ['make a personalized zone a plain one', 'routes/sale.json', (page) => (page.layout.zones.opening = page.layout.zones.opening.default)],
  ['change a rule', 'routes/index.json', (page) => (hero(page).rules[1].audience = 'old-friend')],
  ['insert a rule first', 'routes/index.json', (page) => hero(page).rules.unshift({ audience: 'member', variant: 'welcome-back' })],
  ['insert a rule with a condition in the middle', 'routes/sale.json', (page) =>
    page.layout.zones.opening.rules.splice(1, 0, { when: { country: 'NO', 'now.hour': { $gte: 18 } }, variant: 'code' })],
  ['move a rule', 'routes/index.json', (page) => hero(page).rules.push(hero(page).rules.shift())],
  ['add an experiment', 'routes/sale.json', (page) =>
    page.layout.zones.opening.rules.push({
      experiment: { key: 'sale-code', variants: ['default', 'code'], weights: [0.5, 0.5], coverage: 1, goal: 'Order Placed', value: 'properties.revenue' },
    })],
  ['set the dates of an experiment', 'routes/index.json', (page) =>
    Object.assign(hero(page).rules[2].experiment, { from: '2026-03-01T09:00:00Z', to: '2026-04-01T09:00:00Z' })],
  ['set the winner of an experiment on one line', 'routes/index.json', (page) =>
    Object.assign(front(page)[0].zones.promo.rules[1].experiment, { to: '2026-04-01T09:00:00Z', winner: 'slow' })],
  ['change the weights', 'routes/index.json', (page) => (hero(page).rules[2].experiment.weights = [0.25, 0.75])],
  ['replace coverage by a ramp', 'routes/index.json', (page) =>
    (hero(page).rules[2].experiment.coverage = [{ from: '2026-03-01T09:00:00Z', share: 0.1 }, { from: '2026-03-08T09:00:00Z', share: 1 }])],
  ['change the time of an update', 'routes/index.json', (page) => (page.updatedAt = '2026-02-01T08:00:00Z')],
  ['add a goal', 'site.json', (site) => (site.goals.letter = { name: 'Ordered the letter', event: 'Letter Ordered' })],
  ['add the holdout', 'site.json', (site) => insertAfter(site, 'goals', 'holdout', { share: 0.05 })],
  ['add an audience', 'audiences.json', (audiences) => insertAfter(audiences, 'weekend', 'monday', { name: 'Has Monday', when: { 'now.weekday': 1 } })],
  ['change a condition', 'audiences.json', (audiences) => (audiences.member.when['traits.plan'].$in = ['member', 'household', 'guest'])],
  ['change the price of an item', 'content/products.json', (items) => (items[1].fields.price = 4190)],
  ['remove an item', 'content/stores.json', (items) => items.splice(1, 1)],
  ['change the target of a redirect', 'routes/moved/sleep.json', (page) => (page.redirect.to = '/sleeping-bags/winter')],
];

/** Shortens two lines to where they differ, and any other line to the beginning. */
function showHunk({ removed, added }: { removed: string[]; added: string[] }): string[] {
  const cut = (line: string) => (line.length > 150 ? `${line.slice(0, 140)} … ${line.length - 140} more` : line);
  if (removed.length !== 1 || added.length !== 1) return [...removed.map((line) => `- ${cut(line)}`), ...added.map((line) => `+ ${cut(line)}`)];
  const [before, after] = [removed[0]!, added[0]!];
  const shorter = Math.min(before.length, after.length);
  let start = 0;
  while (start < shorter && before[start] === after[start]) start++;
  let end = 0;
  while (end < shorter - start && before[before.length - 1 - end] === after[after.length - 1 - end]) end++;
  const part = (line: string) => cut(line.slice(start > 60 ? start - 50 : 0, line.length - Math.max(0, end - 30)));
  const show = (line: string) => (start > 60 ? '…' : '') + part(line) + (end > 30 ? '…' : '');
  return [`- ${show(before)}`, `+ ${show(after)}`];
}

test('typical edits change the lines that the golden file lists', () => {
  const examples = examplesOf('authoring.md');
  const textOf = (file: string) => DEMO[file] ?? examples.find((example) => example.includes(`"path": "${file.slice('routes'.length)}"`))!;
  const shown = EDITS.map(([title, file, change]) => {
    const before = textOf(file);
    const value = JSON.parse(before);
    change(value);
    const after = patch(before, value);
    assert.deepEqual(JSON.parse(after), value, title);
    const hunks = differences(before.split('\n'), after.split('\n')).map((hunk) => showHunk(hunk).join('\n'));
    return `## ${title} (${file})\n\n${hunks.join('\n  ...\n')}\n`;
  });
  const golden = shown.join('\n');
  if (process.env['BLESS']) writeFileSync(GOLDEN, golden);
  assert.equal(golden, readFileSync(GOLDEN, 'utf8'), 'to accept these lines, run with BLESS=1');
});
