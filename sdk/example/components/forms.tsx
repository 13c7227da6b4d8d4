'use client';
import { useParallax } from '@parallax/sdk/next/client';
import { type ReactNode, useState } from 'react';
import { Block } from './blocks';
import type { Node } from './types';
import { price } from './units';

interface FormProps {
  event: string;
  properties?: (form: FormData) => Record<string, string>;
  label: string;
  thanks: string;
  children: ReactNode;
}

/** Records an event with the properties that may leave the page. The demo site has no server for the other fields. */
function EventForm({ event, properties, label, thanks, children }: FormProps) {
  const { track } = useParallax();
  const [isSent, setIsSent] = useState(false);
  const send = async (form: FormData) => {
    await track(event, properties?.(form) ?? {});
    setIsSent(true);
  };
  return (
    <form action={send} className="form">
      {children}
      <button className="button">{label}</button>
      {isSent && <output>{thanks}</output>}
    </form>
  );
}

export function ContactForm({ props }: Node<'ContactForm'>) {
  return (
    <Block title={props.title} id={props.anchor} className="panel">
      {props.text && <p>{props.text}</p>}
      <EventForm event="Contact Requested" label="Send" thanks="Thank you. We will answer.">
        {props.fields.map(({ name, label, options, required }) => (
          <label key={name}>
            {label}
            {options ? <select name={name}>{options.map((option) => <option key={option}>{option}</option>)}</select> : <input name={name} required={required} />}
          </label>
        ))}
      </EventForm>
      <p className="note">{props.privacy}</p>
    </Block>
  );
}

export function Newsletter({ props }: Node<'Newsletter'>) {
  return (
    <div className="callout" lang={props.lang}>
      <h2>{props.title}</h2>
      <p>{props.text}</p>
      <EventForm event="Letter Requested" properties={() => ({ list: props.list })} label="Subscribe" thanks="Until Sunday.">
        <label>
          E-mail <input type="email" name="email" required autoComplete="email" />
        </label>
      </EventForm>
      {props.consent && <p className="note">{props.consent}</p>}
    </div>
  );
}

export function GiftCardForm({ props }: Node<'GiftCardForm'>) {
  const { amounts, currency, engraving, free } = props;
  const properties = (form: FormData) => ({ amount: String(form.get('amount')) });
  return (
    <Block className="panel">
      <EventForm event="Gift Card Chosen" properties={properties} label="Choose" thanks="A good choice.">
        <label>
          Amount <input name="amount" type="number" min={free.minimum} max={free.maximum} list="amounts" defaultValue={amounts[1]} />
        </label>
        <datalist id="amounts">{amounts.map((amount) => <option key={amount} value={amount}>{price(amount, currency)}</option>)}</datalist>
        <label>
          Engraving <input name="engraving" maxLength={engraving.maxLength} />
        </label>
      </EventForm>
      <p className="note">{engraving.note}</p>
    </Block>
  );
}

export function RentalCalendar({ props }: Node<'RentalCalendar'>) {
  const properties = (form: FormData) => ({ from: String(form.get('from')) });
  return (
    <Block title={props.title} className="panel">
      <p>{props.text}</p>
      <EventForm event="Rental Requested" properties={properties} label="Ask for it" thanks="We will write today.">
        <label>
          From <input type="date" name="from" required />
        </label>
      </EventForm>
      {props.memberPrices && <p className="note">Members pay half, Monday to Thursday.</p>}
    </Block>
  );
}
