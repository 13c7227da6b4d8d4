import { getLayout, staticParams, tagsOf } from '@parallax/sdk/next';
import { Layout } from '@parallax/sdk/react';
import { PageView } from '@parallax/sdk/next/client';
import type { Metadata } from 'next';
import { cacheLife, cacheTag } from 'next/cache';
import { draftMode } from 'next/headers';
import { notFound, permanentRedirect, redirect } from 'next/navigation';
import { components } from '../../../components/registry';
import { Unknown } from '../../../components/unknown';
import { client, previewClient, timeoutMs } from '../../../parallax';

type Props = { params: Promise<{ segments: string[] }> };

/** The paths to render ahead, separated by commas. Absent: all. */
const routes = process.env.EXAMPLE_ROUTES?.split(',');

/** A page has no part that could come later. */
export const instant = false;
export const generateStaticParams = () => staticParams(client, { filter: (path) => routes?.includes(path) ?? true });

async function load(segments: string[], isDraft: boolean) {
  'use cache';
  cacheLife('max');
  const layout = await getLayout(client, segments, { preview: isDraft ? previewClient : undefined, timeoutMs });
  cacheTag(...tagsOf(client, segments, layout));
  return layout;
}

export async function generateMetadata({ params }: Props): Promise<Metadata> {
  const { isEnabled } = await draftMode();
  const layout = await load((await params).segments, isEnabled);
  if (layout?.type !== 'layout') return {};
  const { title, description } = layout.layout.root.props as { title: string; description?: string };
  return { title, description };
}

export default async function Page({ params }: Props) {
  const { isEnabled } = await draftMode();
  const layout = await load((await params).segments, isEnabled);
  if (!layout) notFound();
  if (layout.type === 'redirect') return (layout.status === 301 || layout.status === 308 ? permanentRedirect : redirect)(layout.to);
  return (
    <main>
      <Layout tree={layout} components={components} fallback={Unknown} />
      <PageView path={layout.route} variants={layout.variants} preview={isEnabled} />
    </main>
  );
}
