// A shared link: it shows the present page to everybody who has it, until it ends or somebody revokes it.
import { html, useEffect, useState } from './vendor/preact-htm.js';
import { day, linkAddress, pageUrl, readState, request, shownNumbers, url } from './core.js';
import { Dialog } from './dialog.js';
import { Code, Empty, Notice, Select } from './parts.js';

const DAYS = [
  ['7', 'for 7 days'],
  ['30', 'for 30 days'],
  ['90', 'for 90 days'],
  ['365', 'for 365 days'],
];

// Returns the requests of the page. A range without dates is another one each day, so the link answers for each.
function requestsOf({ query }) {
  const hasDates = query.has('from') || query.has('to');
  return shownNumbers().map((address) => {
    const [path, text] = address.split('?');
    const params = new URLSearchParams(text);
    if (!hasDates) ['from', 'to'].forEach((name) => params.delete(name));
    return `${path}?${params}`;
  });
}

const Entry = ({ site, link: { id, page, madeBy, endsAt }, isRunning, revoke }) => html`
  <li class="row">
    <span class="grow"><bdi>${page}</bdi><span class="dim small"> by <bdi>${madeBy.name || madeBy.kind}</bdi>, until ${day(endsAt, site.timeZone)}</span></span>
    <button type="button" disabled=${isRunning} onClick=${() => revoke(id)}>Revoke</button>
  </li>
`;

export function Share({ site, title, onClose }) {
  const [days, setDays] = useState('30');
  const [{ links, token, problem, isRunning }, setState] = useState({ isRunning: true });
  const address = (id) => url('access/links', { site: site.site, id });
  // Does a step, and then reads the list again.
  const run = async (step) => {
    setState((last) => ({ ...last, problem: undefined, isRunning: true }));
    try {
      const done = await step();
      const list = await (await request(address())).json();
      setState((last) => ({ links: list.links, token: last.token, ...done }));
    } catch (error) {
      setState((last) => ({ ...last, problem: error.message, isRunning: false }));
    }
  };
  useEffect(() => void run(() => ({})), []);
  const make = (event) => {
    event.preventDefault();
    const state = readState();
    const page = pageUrl(state.page, { site: site.site }).slice(1);
    const body = JSON.stringify({ page, requests: requestsOf(state), days: Number(days) });
    void run(async () => ({ token: (await (await request(address(), { method: 'POST', body })).json()).token }));
  };
  const revoke = (id) => run(async () => void (await request(address(id), { method: 'DELETE' })));
  return html`
    <${Dialog} title=${`Share ${title}`} isBusy=${isRunning} onClose=${onClose}>
      <p>Everybody who has the link sees the numbers of this page as it is now, without signing in here, and nothing else.</p>
      <form class="row" onSubmit=${make}>
        <${Select} label="The link opens" value=${days} options=${DAYS} onChange=${setDays} />
        <button type="submit" class="primary" disabled=${isRunning}>Make a link</button>
        <button type="button" onClick=${(event) => event.currentTarget.closest('dialog').close()}>Close</button>
      </form>
      ${problem && html`<${Notice} tone="bad">${problem}<//>`}
      ${token && html`<${Code} label="The link. It is shown only now" text=${linkAddress(token)} />`}
      ${links?.length === 0 && html`<${Empty}>The site has no shared links.<//>`}
      ${links?.length > 0 && html`<h3>Shared links of this site</h3><ul class="links">${links.map((link) => html`<${Entry} key=${link.id} ...${{ site, link, isRunning, revoke }} />`)}</ul>`}
    <//>
  `;
}
