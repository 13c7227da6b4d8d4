// Audiences: each with its condition in words and its size now.
import { html } from './vendor/preact-htm.js';
import { capital, clockTime, count, download, percent, url, useAnswer } from './core.js';
import { conditionInWords } from './explain.js';
import { Answer, Card, Csv, Details, Empty, Json, Stranger } from './parts.js';

export function Audiences({ site }) {
  const address = url('insights/audiences', { site: site.site });
  const answer = useAnswer(address);
  return html`
    <div class="gap-top">
      <${Answer} of=${answer}>
        ${(data) => html`
          <p class="dim lead">
            ${count(data.profiles)} profiles are in memory, counted at ${clockTime(data.at, site.timeZone)}. A size is a range if the condition
            asks for the next request too, such as its URL.
            <${Csv} run=${() => download(address, `audiences-${site.site}.csv`, 'text/csv')} />
          </p>
          ${data.audiences.length === 0 && html`<${Empty}>The site has no audiences.<//>`}
          <div class="cards">${data.audiences.map((audience) => html`<${Audience} key=${audience.name} audience=${audience} profiles=${data.profiles} />`)}</div>
        `}
      <//>
    </div>
  `;
}

const rangeInWords = (least, most, words) => (least === most ? words(least) : `${words(least)} – ${words(most)}`);

function Audience({ audience: { name, condition, atLeast, atMost }, profiles }) {
  const share = (value) => (profiles > 0 ? value / profiles : 0);
  // The profiles say nothing: each one is in the audience with some requests and not with others.
  const isOpen = atLeast === 0 && atMost === profiles && profiles > 0;
  const size = rangeInWords(atLeast, atMost, count);
  return html`
    <${Card} title=${html`<${Stranger} text=${name} />`}>
      <div class="audience-size"><b>${isOpen ? 'Any profile' : size}</b> <span class="dim small">${isOpen ? 'the request decides' : `${rangeInWords(share(atLeast), share(atMost), percent)} of profiles`}</span></div>
      <svg class="size" aria-hidden="true" viewBox="0 0 100 6" preserveAspectRatio="none">
        <rect class="track" width="100" height="6" />
        <rect class="most" width=${100 * share(atMost)} height="6" />
        <rect class="least" width=${100 * share(atLeast)} height="6" />
      </svg>
      <p class="small"><bdi>${capital(conditionInWords(condition))}.</bdi></p>
      <${Details} summary="As written">${() => html`<${Json} label=${`Condition of ${name}`} value=${condition} />`}<//>
    <//>
  `;
}
