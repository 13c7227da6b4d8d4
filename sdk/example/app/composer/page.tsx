import type { Metadata } from 'next';
import { Editor } from './editor';

export const metadata: Metadata = { title: 'Composer', robots: { index: false } };

export default function ComposerPage() {
  return <Editor />;
}
