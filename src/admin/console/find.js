// The form that finds a visitor by an ID.
import { html, useState } from './vendor/preact-htm.js';
import { change } from './core.js';
import { Field, Select } from './parts.js';

export const KINDS = [
  ['anonId', 'Anonymous ID'],
  ['userId', 'User ID'],
];

export function FindById({ visitor }) {
  const [present] = Object.keys(visitor ?? {});
  const [kind, setKind] = useState(present ?? 'anonId');
  const submit = (event) => {
    event.preventDefault();
    const id = new FormData(event.currentTarget).get('id').trim();
    // The context and the record are those of the visitor before.
    change({ anonId: null, userId: null, seq: null, device: null, locale: null, country: null, [kind]: id });
  };
  return html`
    <form class="row find grow" role="search" aria-label="Find by an ID" onSubmit=${submit}>
      <${Select} label="Kind of ID" isHidden=${false} value=${kind} options=${KINDS} onChange=${setKind} />
      <div class="grow"><${Field} label="ID" name="id" type="search" required autocomplete="off" spellcheck="false" defaultValue=${visitor?.[present]} /></div>
      <button type="submit" class="primary">Find</button>
    </form>
  `;
}
