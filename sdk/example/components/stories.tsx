import type { Fields } from '@parallax/sdk';
import Link from 'next/link';
import type { Site } from '../site';
import { Block } from './blocks';
import { Picture } from './picture';
import type { Node } from './types';

export function LeadStory({ props, items = [] }: Node<'LeadStory'>) {
  return (
    <div className="stories">
      <p className="kicker">{props.kicker}</p>
      {items.map(({ id, fields }, i) => (
        <Link key={id} href={`/magazine/${fields.slug}`} className={i < props.large ? 'story large' : 'story'}>
          <Picture image={fields.image} />
          <h2>{fields.title}</h2>
          <p>{fields.lead}</p>
          <span className="meta">{`${fields.author} · ${fields.minutes} min`}</span>
        </Link>
      ))}
    </div>
  );
}

export function StoryList({ props, items = [] }: Node<'StoryList'>) {
  return (
    <Block title={props.title}>
      {props.text && <p>{props.text}</p>}
      <div className={props.compact ? 'stories compact' : 'stories'}>
        {items.map(({ id, fields }) => <Story key={id} story={fields} isShort={props.compact} />)}
      </div>
    </Block>
  );
}

type StoryFields = Pick<Fields<Site, 'short-reads'>, 'title' | 'slug' | 'minutes' | 'author'> & Partial<Fields<Site, 'featured'>>;

function Story({ story, isShort }: { story: StoryFields; isShort?: boolean }) {
  const { title, slug, lead, image, author, minutes } = story;
  return (
    <Link href={`/magazine/${slug}`} className="story">
      {!isShort && image && <Picture image={image} />}
      <h3>{title}</h3>
      {!isShort && lead && <p>{lead}</p>}
      <span className="meta">{`${author} · ${minutes} min`}</span>
    </Link>
  );
}

/** The text of the node itself, or the article of the route. */
export function Article({ props, items }: Node<'Article'>) {
  const fields = items?.[0]?.fields;
  if (!fields) {
    return (
      <Block title={props.title} className="prose">
        {props.image && <Picture image={props.image} />}
        {props.paragraphs?.map((text) => <p key={text}>{text}</p>)}
        {props.credit && <p className="note">{props.credit}</p>}
      </Block>
    );
  }
  return (
    <article className="prose article">
      <p className="kicker">{`${fields.section} · ${fields.minutes} min`}</p>
      <h1>{fields.title}</h1>
      <p className="lead">{fields.lead}</p>
      <p className="meta">
        {fields.author} · <time dateTime={fields.publishedAt}>{fields.publishedAt.slice(0, 10)}</time>
      </p>
      <Picture image={fields.image} />
      {fields.body.map((text, i) => (
        <div key={text}>
          {fields.headings?.filter(({ before }) => before === i).map(({ title }) => <h2 key={title}>{title}</h2>)}
          <p>{text}</p>
        </div>
      ))}
      {fields.quote && (
        <blockquote className="quote">
          <p>{fields.quote.text}</p>
          <footer>{fields.quote.by}</footer>
        </blockquote>
      )}
    </article>
  );
}
