// The page of a shared link: its header, and its end.
import { html } from './vendor/preact-htm.js';
import { day, daysBetween, showLinked, useAnswer } from './core.js';
import { Answer, Notice } from './parts.js';

// Returns the days of a range in words, or nothing for a range with an open or wrong end.
const inWords = (days) => days.every((date) => !Number.isNaN(Date.parse(date))) && daysBetween(...days, 'UTC');

// The header: what the link shows, and until when. `days` are the first and the last day, and `chips` the filters.
export const LinkedHeader = ({ site, title, days, chips, link }) => html`
  <header>
    <div class="bar-top">
      <span class="brand">Parallax</span>
      <b><bdi>${site?.name ?? site?.site}</bdi></b> ${title}
      ${days && html`<span>${inWords(days)}</span>`}
      <span class="spring"></span>
      <span class="dim small">shared until ${day(link.endsAt, site?.timeZone)}</span>
    </div>
    ${chips}
  </header>
`;

// Shows the page of the link, as soon as the server has named it.
export function Linked({ hasEnded, show }) {
  const answer = useAnswer('access');
  const link = answer.data?.link;
  if (link) showLinked(link.page);
  if (hasEnded)
    return html`<main class="sign-in"><div class="card"><h1>Parallax</h1><${Notice}>This link has ended or was revoked. Ask for another one.<//></div></main>`;
  return link ? show(link) : html`<main><${Answer} of=${answer}>${() => null}<//></main>`;
}
