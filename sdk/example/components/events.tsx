'use client';
import { ParallaxEvents, type ParallaxEventsProps } from '@parallax/sdk/react/client';
import { useEffect, useRef } from 'react';

/**
 * The events of the site. Next.js shows a visited page for up to five minutes without a request. So after an event the next link
 * loads its document: the click does not reach the router, and the browser navigates.
 */
export function SiteEvents(props: Omit<ParallaxEventsProps, 'refreshOn' | 'refresh'>) {
  const isStale = useRef(false);
  useEffect(() => {
    const load = (event: MouseEvent) => isStale.current && (event.target as Element).closest('a[href]') && event.stopPropagation();
    addEventListener('click', load, true);
    return () => removeEventListener('click', load, true);
  }, []);
  return <ParallaxEvents {...props} refreshOn="receipt" refresh={() => void (isStale.current = true)} />;
}
