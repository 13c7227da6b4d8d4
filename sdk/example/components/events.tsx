'use client';
import { ParallaxEvents, type ParallaxEventsProps, type RefreshReason } from '@parallax/sdk/next/client';
import { useRouter } from 'next/navigation';
import { useEffect, useRef } from 'react';

/**
 * The events of the site. Next.js shows a visited page for up to five minutes without a request. So after an event the next link
 * loads its document: the click does not reach the router, and the browser navigates. After a sign-out the router forgets all pages.
 */
export function SiteEvents(props: Omit<ParallaxEventsProps, 'refreshOn' | 'refresh'>) {
  const router = useRouter();
  const isStale = useRef(false);
  useEffect(() => {
    const load = (event: MouseEvent) => isStale.current && (event.target as Element).closest('a[href]') && event.stopPropagation();
    addEventListener('click', load, true);
    return () => removeEventListener('click', load, true);
  }, []);
  const refresh = (reason: RefreshReason) => {
    isStale.current = true;
    if (reason === 'reset') router.refresh();
  };
  return <ParallaxEvents {...props} refreshOn="receipt" refresh={refresh} />;
}
