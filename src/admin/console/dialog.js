// A dialog above the page.
import { html, useEffect, useRef } from './vendor/preact-htm.js';

// A modal dialog. Escape closes it unless `isBusy`, and the focus returns to the element that opened it.
export function Dialog({ title, isBusy, onClose, children }) {
  const dialog = useRef(null);
  useEffect(() => {
    const element = dialog.current;
    element.showModal();
    return () => element.close();
  }, []);
  return html`
    <dialog ref=${dialog} aria-label=${title} onCancel=${(event) => isBusy && event.preventDefault()} onClose=${onClose}>
      <h2>${title}</h2>
      ${children}
    </dialog>
  `;
}
