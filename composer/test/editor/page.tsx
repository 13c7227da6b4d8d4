// The page of the tests: the composer with the components of the example.
import '@puckeditor/core/no-external.css';
import { createRoot } from 'react-dom/client';
import { Composer } from '@parallax/composer';
import '@parallax/composer/composer.css';
import { SilentEvents } from '@parallax/sdk/react/client';
import { components } from 'example/registry';
import type { ReactNode } from 'react';
import 'example/globals.css';
import 'example/content.css';
import 'example/shop.css';

const params = new URLSearchParams(location.search);
const isLocked = params.get('locked');
// Without the author module, the server of the site decides for invented visitors.
const checks = params.has('plain') ? {} : { createWorker: () => new Worker('/worker.js', { type: 'module' }), moduleUrl: '/author.wasm' };

/** The page of the example: it sends no event from the editor. */
function Page({ zones }: { zones: Record<string, ReactNode> }): ReactNode {
  return (
    <SilentEvents>
      {Object.entries(zones).map(([name, zone]) => (
        <section key={name} data-zone={name}>
          {zone}
        </section>
      ))}
    </SilentEvents>
  );
}

createRoot(document.getElementById('composer')!).render(
  <Composer
    endpoint="/api/composer"
    components={components as never}
    page={Page}
    {...checks}
    canEdit={({ zone }) => zone !== isLocked}
  />,
);
