'use client';
import { useRouter } from 'next/navigation.js';
import { type ReactNode, createElement } from 'react';
import { ParallaxEvents as ReactEvents, type ParallaxEventsProps } from './react-client.js';

export { PageView, type PageViewProps, type ParallaxEventsProps, type RefreshReason, SilentEvents, useMore, useParallax } from './react-client.js';

/** Provides the events of the page. After a sign-out the router forgets the pages of the last visitor and renders this one again. */
export function ParallaxEvents(props: ParallaxEventsProps): ReactNode {
  const router = useRouter();
  return createElement(ReactEvents, { refresh: () => router.refresh(), ...props });
}
