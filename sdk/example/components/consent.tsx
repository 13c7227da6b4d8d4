'use client';
import { useParallax } from '@parallax/sdk/next/client';
import { useEffect, useState } from 'react';

/** Asks once. The answer is the cookie `px_consent`. */
export function ConsentBanner() {
  const events = useParallax();
  const [isOpen, setIsOpen] = useState(false);
  useEffect(() => setIsOpen(!/(^|;\s*)px_consent=/.test(document.cookie)), []);
  if (!isOpen) return null;
  const answer = (isGranted: boolean) => {
    events.consent({ personalize: isGranted, measure: isGranted });
    setIsOpen(false);
  };
  return (
    <div className="consent" role="dialog" aria-label="Consent">
      <p>May we remember your visits, so that the shop shows what concerns you? We share nothing.</p>
      <p className="actions">
        <button className="button" onClick={() => answer(true)}>
          Yes
        </button>
        <button className="button quiet" onClick={() => answer(false)}>
          No
        </button>
      </p>
    </div>
  );
}
