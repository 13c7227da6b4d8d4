// Replacements for the parts of Next.js that the components of the example use.
import type { AnchorHTMLAttributes } from 'react';

export default function Link(props: AnchorHTMLAttributes<HTMLAnchorElement>) {
  return <a {...props} />;
}

export const useRouter = () => ({ refresh() {}, push() {}, prefetch() {} });
