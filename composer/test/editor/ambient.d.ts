declare module '*.css';
declare module 'example/registry' {
  export const components: Record<string, never>;
}
declare module '@parallax/sdk/react/client' {
  import type { ReactNode } from 'react';
  export function SilentEvents(props: { children: ReactNode }): ReactNode;
}
