import type { Metadata } from 'next';
import type { ReactNode } from 'react';
import './globals.css';
import './content.css';
import './shop.css';

export const metadata: Metadata = { title: { default: 'Fjell Outdoor Supply', template: '%s · Fjell' } };

export default function RootLayout({ children }: { children: ReactNode }) {
  return (
    <html lang="en">
      <body>{children}</body>
    </html>
  );
}
