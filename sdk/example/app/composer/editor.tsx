'use client';
import { SilentEvents } from '@parallax/sdk/next/client';
import '@parallax/composer/composer.css';
import '@puckeditor/core/no-external.css';
import dynamic from 'next/dynamic';
import type { ReactNode } from 'react';
import { components } from '../../components/registry';

/** The editor is for the browser alone. */
const Composer = dynamic(() => import('@parallax/composer').then(({ Composer }) => Composer), { ssr: false });
const createWorker = () => new Worker(new URL('@parallax/composer/worker', import.meta.url), { type: 'module' });
const moduleUrl = new URL('@parallax/sdk/author.wasm', import.meta.url).href;

/** Places the zones as `Layout` does. The components get events that are sent nowhere. */
function Page({ zones }: { zones: Record<string, ReactNode> }) {
  return (
    <SilentEvents>
      <main>
        {Object.entries(zones).map(([name, zone]) => (
          <section key={name} data-zone={name}>
            {zone}
          </section>
        ))}
      </main>
    </SilentEvents>
  );
}

export function Editor() {
  return <Composer endpoint="/api/composer" components={components} page={Page} createWorker={createWorker} moduleUrl={moduleUrl} />;
}
