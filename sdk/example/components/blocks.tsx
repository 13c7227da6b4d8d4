import Link from 'next/link';
import type { ReactNode } from 'react';
import { Picture } from './picture';
import type { Node } from './types';

export function Action({ href, label, kind = 'quiet' }: { href: string; label: string; kind?: string }) {
  return (
    <Link href={href} className={kind === 'primary' ? 'button' : 'button quiet'}>
      {label}
    </Link>
  );
}

export function Block({ title, className = '', id, children }: { title?: string; className?: string; id?: string; children: ReactNode }) {
  return (
    <div className={`block ${className}`} id={id}>
      {title && <h2>{title}</h2>}
      {children}
    </div>
  );
}

export function Hero({ props, zones }: Node<'Hero'>) {
  const { title, text, image, actions, code, lang, size } = props;
  return (
    <div className={`hero ${size === 'small' ? 'small' : ''} ${image ? '' : 'plain'}`} lang={lang}>
      {image && <Picture image={image} />}
      <div className="hero-text">
        <h1>{title}</h1>
        <p>{text}</p>
        {code && <p className="code">{code}</p>}
        {actions && <p className="actions">{actions.map((action) => <Action key={action.href} {...action} />)}</p>}
      </div>
      {Object.values(zones).length > 0 && <div className="hero-more">{Object.values(zones)}</div>}
    </div>
  );
}

export function Banner({ props }: Node<'Banner'>) {
  return (
    <Link className="banner" href={props.href}>
      <strong>{props.title}</strong>
      <span>{props.text}</span>
      {props.code && <code>{props.code}</code>}
    </Link>
  );
}

export function Callout({ props }: Node<'Callout'>) {
  return (
    <div className="callout" id={props.anchor} lang={props.lang}>
      <h2>{props.title}</h2>
      <p>{props.text}</p>
      {props.action && <Action {...props.action} />}
    </div>
  );
}

export function Card({ props }: Node<'Card'>) {
  return (
    <div className={`card ${props.tone ?? ''}`}>
      <h3>{props.title}</h3>
      <p>{props.text}</p>
      {props.action && <Link href={props.action.href}>{props.action.label} →</Link>}
    </div>
  );
}

export function Checklist({ props }: Node<'Checklist'>) {
  return (
    <Block title={props.title}>
      <ul className="checklist">{props.items.map((item) => <li key={item}>{item}</li>)}</ul>
    </Block>
  );
}

export function Columns({ props, zones }: Node<'Columns'>) {
  const ratio = props.ratio.map((part) => `minmax(0, ${part}fr)`).join(' ');
  return (
    <div className="columns" id={props.anchor} style={{ '--columns': ratio } as React.CSSProperties}>
      {Object.entries(zones).map(([name, zone]) => <div key={name}>{zone}</div>)}
    </div>
  );
}

export function FAQ({ props }: Node<'FAQ'>) {
  return (
    <Block title={props.title}>
      {props.items.map(({ q, a }) => (
        <details key={q}>
          <summary>{q}</summary>
          <p>{a}</p>
        </details>
      ))}
    </Block>
  );
}

export function Facts({ props }: Node<'Facts'>) {
  return (
    <Block title={props.title}>
      <dl className="facts">
        {props.facts.map(({ name, value, unit }) => (
          <div key={name}>
            <dd>{value.toLocaleString('en-GB', { useGrouping: value > 9999 })}</dd>
            <dt>{unit ? `${name}, ${unit}` : name}</dt>
          </div>
        ))}
      </dl>
    </Block>
  );
}

export function Quote({ props }: Node<'Quote'>) {
  return (
    <blockquote className="quote">
      <p>{props.text}</p>
      <footer>{props.by}</footer>
    </blockquote>
  );
}

export function Text({ props }: Node<'Text'>) {
  return (
    <Block title={props.title} className="prose">
      <p>{props.text}</p>
    </Block>
  );
}

export function Table({ props }: Node<'Table'>) {
  return (
    <div className="block scroll">
      <table>
        <caption>{props.caption}</caption>
        <thead>
          <tr>{props.columns.map((column) => <th key={column}>{column}</th>)}</tr>
        </thead>
        <tbody>{props.rows.map((row) => <Row key={row.join()} row={row} />)}</tbody>
      </table>
      {props.notes && <p className="note">{props.notes}</p>}
    </div>
  );
}

function Row({ row }: { row: (string | number)[] }) {
  return <tr>{row.map((cell, i) => (i ? <td key={i}>{cell}</td> : <th key={i} scope="row">{cell}</th>))}</tr>;
}

export function Reviews({ props }: Node<'Reviews'>) {
  return (
    <Block title={props.title}>
      <p className="note">{props.note}</p>
      <div className="reviews">
        {props.reviews.map(({ by, stars, text, date }) => (
          <figure key={by}>
            <figcaption>
              <span className="stars" aria-label={`${stars} of 5 stars`}>
                {'★'.repeat(stars)}
                <s>{'★'.repeat(5 - stars)}</s>
              </span>
              {by} · <time dateTime={date}>{date}</time>
            </figcaption>
            <p>{text}</p>
          </figure>
        ))}
      </div>
      <p className="answer">
        {props.answer.text} <em>— {props.answer.by}</em>
      </p>
    </Block>
  );
}
