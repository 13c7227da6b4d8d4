'use client';
import { useParallax } from '@parallax/sdk/next/client';
import Link from 'next/link';
import { useEffect, useState } from 'react';
import { Block } from './blocks';
import { readStored, writeStored } from './storage';
import type { Node } from './types';

export interface BuyButtonProps {
  sku: string;
  category: string;
  label: string;
  isBuy: boolean;
}

/** Records the event and does not wait: the next page knows it anyway. */
export function BuyButton({ sku, category, label, isBuy }: BuyButtonProps) {
  const { track } = useParallax();
  const [isDone, setIsDone] = useState(false);
  const buy = () => {
    void track(isBuy ? 'Product Added' : 'Notify Requested', { sku });
    if (isBuy && category === 'tents') void track('Tent Bought', { sku });
    setIsDone(true);
  };
  return (
    <p className="actions">
      <button className="button" onClick={buy}>
        {label}
      </button>
      {isDone && <output>{isBuy ? 'It is in your basket.' : 'We will write to you.'}</output>}
    </p>
  );
}

interface ViewedProduct {
  name: string;
  href: string;
}

/** Keeps a product for `RecentlyViewed`. */
export function Remember({ name, href }: ViewedProduct) {
  useEffect(() => {
    const others = readStored<ViewedProduct[]>('recent', []).filter((other) => other.href !== href);
    writeStored('recent', [{ name, href }, ...others].slice(0, 8));
  }, [name, href]);
  return null;
}

export function RecentlyViewed({ props }: Node<'RecentlyViewed'>) {
  const [recent, setRecent] = useState<ViewedProduct[]>([]);
  useEffect(() => setRecent(readStored<ViewedProduct[]>('recent', [])), []);
  return (
    <Block title={props.title}>
      <ul className="chips reserve">
        {recent.slice(0, props.limit).map(({ name, href }) => (
          <li key={href}>
            <Link href={href}>{name}</Link>
          </li>
        ))}
      </ul>
    </Block>
  );
}

interface Member {
  name: string;
  plan: string;
}

/** Signs a visitor in. `identify` is awaited, so that the next page knows the member for certain. */
export function MemberCard({ props }: Node<'MemberCard'>) {
  const events = useParallax();
  const [member, setMember] = useState<Member | null>(null);
  useEffect(() => setMember(readStored<Member | null>('member', null)), []);

  async function signIn(form: FormData) {
    const signedIn = { name: String(form.get('name')), plan: 'member' };
    writeStored('member', signedIn);
    setMember(signedIn);
    await events.identify(`member-${signedIn.name.toLowerCase()}`, { plan: signedIn.plan });
  }
  function signOut() {
    writeStored('member', null);
    setMember(null);
    events.reset();
  }
  if (member) {
    return (
      <div className="card member">
        <h3>{member.name}</h3>
        <p>{`Fjell ${member.plan}, with thanks from the workshop.`}</p>
        <button className="button quiet" onClick={signOut}>
          Sign out
        </button>
      </div>
    );
  }
  return (
    <form className="card" action={signIn}>
      <h3>Your card</h3>
      <p>{props.empty}</p>
      <label>
        Name <input name="name" required maxLength={40} autoComplete="given-name" />
      </label>
      <button className="button">Sign in</button>
    </form>
  );
}

export function RepairHistory({ props }: Node<'RepairHistory'>) {
  return (
    <div className="card">
      <h3>{props.title}</h3>
      <p>{props.empty}</p>
    </div>
  );
}

/** The time until the end of the coming Sunday. Rendered in the browser only, so that the static page has no time. */
export function Countdown({ props }: Node<'Countdown'>) {
  const [hours, setHours] = useState<number | null>(null);
  useEffect(() => {
    const end = new Date();
    end.setDate(end.getDate() + ((7 - end.getDay()) % 7));
    end.setHours(23, 59, 0, 0);
    setHours(Math.max(0, Math.floor((end.getTime() - Date.now()) / 3_600_000)));
  }, []);
  return (
    <p className="countdown">
      <strong>{hours === null ? '–' : `${Math.floor(hours / 24)} d ${hours % 24} h`}</strong> {props.label}
    </p>
  );
}
