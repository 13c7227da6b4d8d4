// What the components of the example use of Next.js, outside of an app of Next.js.
import type { AnchorHTMLAttributes } from 'react';

export default function Link(props: AnchorHTMLAttributes<HTMLAnchorElement>) {
  return <a {...props} />;
}

export const useRouter = () => ({ refresh() {}, push() {}, prefetch() {} });
