// The token of a link to a preview, which is in the fragment of the URL.
import { useSyncExternalStore } from 'react';

function subscribe(onChange: () => void): () => void {
  addEventListener('hashchange', onChange);
  return () => removeEventListener('hashchange', onChange);
}

/** Returns the token of the fragment, or null. */
export function usePreviewToken(): string | null {
  return useSyncExternalStore(subscribe, () => /^#preview=([\w.-]+)$/.exec(location.hash)?.[1] ?? null, () => null);
}
