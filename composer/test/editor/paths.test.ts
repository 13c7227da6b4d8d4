// The paths of pages without a browser, compared with the program.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { mentionsOf, pathFault, renamedPage } from '../../src/editor/paths.js';
import { changesOf, pagesOf, presentFiles } from '../../src/editor/site.js';
import { SMALL, etagOf, parallax, smallSite } from '../server/site.js';

const page = (path: string, to = '/') => `${JSON.stringify({ path, layout: { root: { props: { title: path } }, zones: { main: [{ id: 'x', type: 'Link', props: { href: to } }] } } }, null, 2)}\n`;
const siteOf = (files: Record<string, string>) => ({ revision: '1', files: Object.fromEntries(Object.entries(files).map(([file, text]) => [file, { text, etag: etagOf(text) }])) });
const FILES = { ...SMALL, 'routes/a.json': page('/a'), 'routes/items.json': page('/items/:id', '/a#top'), 'routes/old.json': JSON.stringify({ path: '/old', redirect: { to: '/a', status: 308 } }) };
/** Returns whether the program has no mistake in the files. */
const isFine = (files: Record<string, string>) => {
  try {
    parallax('lint', smallSite(files));
    return true;
  } catch {
    return false;
  }
};

describe('the path of a page', () => {
  test('is refused with a reason where the program refuses it, and not elsewhere', () => {
    const long = (bytes: number) => `/${'a'.repeat(bytes - 1)}`;
    const paths = ['/x', '/X/y', '/å', '/a b', '/a:b', '/x/:id', '/x/*', '/x/:a/:b', long(2047), long(2048), long(2049), 'x', '', '/x/', '//x', '/x//y', '/x%20', '/x?y', '/x#y', '/:', '/:å', '/:a/:a', '/*/x'];
    for (const path of paths) assert.equal(pathFault(path) === null, isFine({ ...SMALL, 'routes/new.json': page(path) }), path.slice(0, 20));
  });

  test('changes with a redirect, or without one, in the file of the new path', () => {
    const site = siteOf(FILES);
    const renamed = renamedPage(site, {}, 'routes/a.json', '/shop/b', true);
    assert.ok(typeof renamed === 'object');
    const files = presentFiles(site, renamed);
    assert.deepEqual(JSON.parse(files['routes/a.json']!), { path: '/a', redirect: { to: '/shop/b', status: 308 } });
    assert.equal(files['routes/shop/b.json'], FILES['routes/a.json'].replace('"path": "/a"', '"path": "/shop/b"'));
    assert.ok(isFine(files));
    const plain = renamedPage(site, {}, 'routes/a.json', '/shop/c2', false);
    assert.ok(typeof plain === 'object');
    assert.deepEqual(changesOf(plain).map(({ path, text }) => [path, text === null]), [['routes/shop/c2.json', false], ['routes/a.json', true]]);
  });

  test('keeps its parameters in the redirect, and a colon within a part is none', () => {
    for (const [from, to] of [['/items/:id', '/things/:id'], ['/items/:id', '/a:b/:id'], ['/a', '/x:y*z']] as const) {
      const site = siteOf(FILES);
      const file = pagesOf(site, {}).find(({ path }) => path === from)!.file;
      const renamed = renamedPage(site, {}, file, to, true);
      assert.ok(typeof renamed === 'object', `${renamed}`);
      assert.ok(isFine(presentFiles(site, renamed)), to);
    }
  });

  test('is refused if it is taken or unchanged, or if the redirect does not know a parameter', () => {
    const site = siteOf(FILES);
    const reason = (file: string, path: string, redirects = true) => renamedPage(site, {}, file, path, redirects);
    assert.equal(reason('routes/a.json', '/b'), 'There is a page with this path.');
    assert.equal(reason('routes/a.json', '/items/:name'), 'There is a page with this path.');
    assert.equal(reason('routes/a.json', '/old'), 'A redirect has the path “/old”.');
    assert.equal(reason('routes/a.json', '/a'), 'This is the path that the page has.');
    assert.equal(reason('routes/a.json', '/a/:x'), 'A redirect from “/a” does not know “:x”. Rename the page without a redirect.');
    assert.equal(typeof reason('routes/a.json', '/a/:x', false), 'object');
    assert.equal(reason('routes/items.json', '/items/:name'), 'There is a page with this path.');
    assert.equal(typeof reason('routes/items.json', '/items/:name', false), 'object', 'its own path is free without a redirect');
  });

  test('is mentioned by the pages with a link to it or with its text', () => {
    assert.equal(mentionsOf(FILES, 'routes/a.json', '/a'), 2);
    assert.equal(mentionsOf(FILES, 'routes/old.json', '/old'), 0);
    const links = { 'routes/1.json': page('/1', '/items/7?x=1'), 'routes/2.json': page('/2', '/items/7/more'), 'routes/3.json': page('/3', '/items/:id') };
    assert.equal(mentionsOf({ ...FILES, ...links }, 'routes/items.json', '/items/:id'), 2);
    assert.equal(mentionsOf({ ...FILES, 'routes/1.json': page('/1', '/a.') }, 'routes/a.json', '/a'), 2);
  });
});
