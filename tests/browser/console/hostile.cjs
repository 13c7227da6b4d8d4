// A visitor whose texts contain markup, quotes, right-to-left marks and 1 KiB. They must be text wherever they are shown.
'use strict';
const { SITE, go, settled } = require('./bench.cjs');

const SCRIPT = `<script>globalThis.hacked=1</script><img src=x onerror="globalThis.hacked=1">"'\`\${1}`;
const RIGHT_TO_LEFT = '\u202Eevil\u202C\u200F\u2067 txt.exe';
const LONG = '𝕏'.repeat(200);
const PATH = `/<b>${'p'.repeat(900)}`;
const EVENTS = [SCRIPT, RIGHT_TO_LEFT, LONG];

module.exports = async function hostile(at) {
  const page = {
    anonId: 'hostile',
    type: 'page',
    experiments: 'slow-front:default',
    properties: {
      path: PATH,
      referrer: 'https://"><script>.example/',
      url: `https://www.fjell.example/?utm_source=${encodeURIComponent(SCRIPT)}`,
    },
  };
  const tracks = EVENTS.flatMap((event) =>
    Array.from({ length: 4 }, () => ({ type: 'track', anonId: 'hostile', event, properties: { path: `/${SCRIPT}` } })),
  );
  const identify = { type: 'identify', anonId: 'hostile', userId: SCRIPT, traits: { [RIGHT_TO_LEFT]: SCRIPT } };
  await at.send([page, ...tracks, identify]);
  for (const width of [1200, 400]) await look(at, width);
};

async function look(at, width) {
  const tab = await at.open(`#overview?site=${SITE}&days=1`, { viewport: { width, height: 900 } });
  const { page } = tab;
  const query = new URLSearchParams({ site: SITE, userId: SCRIPT, route: '/' });
  for (const [name, hash] of [
    ['overview', `#overview?site=${SITE}&days=1&event=${encodeURIComponent(SCRIPT)}`],
    ['pages', `#pages?site=${SITE}&days=1&path=${encodeURIComponent(PATH)}`],
    ['sources', `#sources?site=${SITE}&days=1`],
    ['funnels', `#funnels?site=${SITE}&days=1&group=source&step=page:/*&step=${encodeURIComponent(`event:${SCRIPT}`)}`],
    ['retention', `#retention?site=${SITE}&days=1`],
    ['paths', `#paths?site=${SITE}&days=1&path=${encodeURIComponent(PATH)}`],
    ['experiments', `#experiments?site=${SITE}&key=slow-front&since=1&segment=source`],
    ['people', `#visitors?site=${SITE}&days=1`],
    ['visitors', `#visitors?${query}`],
  ]) {
    await go(page, hash);
    await page
      .getByText(name === 'pages' ? PATH.slice(0, 40) : SCRIPT.slice(0, 40))
      .first()
      .waitFor({ state: 'attached' });
    await settled(page);
    const label = `hostile texts, ${name}, ${width} px`;
    at.check(`${label}: nothing ran`, await page.evaluate(() => globalThis.hacked), undefined);
    at.check(
      `${label}: no element was made`,
      await page.$$eval('#console script, #console img, #console main b > b', (made) => made.length),
      0,
    );
    at.check(`${label}: the page has its width`, await page.evaluate(() => document.documentElement.scrollWidth), width);
    at.check(`${label}: each is inside of bdi`, await outsideOfBdi(page), []);
  }
  at.check(`hostile texts, ${width} px: no message of the browser`, tab.messages, []);
  await tab.context.close();
}

// Returns the texts with a mark or markup that are neither inside of a `bdi` nor a choice, which has one text alone.
const outsideOfBdi = (page) =>
  page.evaluate(() => {
    const outside = [];
    const texts = document.createTreeWalker(document.getElementById('console'), NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
      const { data, parentElement } = texts.currentNode;
      if (/[\u202E\u2067<]/.test(data) && !parentElement.closest('bdi, option')) outside.push(data.slice(0, 60));
    }
    return outside;
  });
