// A share from 0 to 1, as percent.
import { type ReactNode, useId, useState } from 'react';

/** Decimals of a percentage that count. A share then has no error of the binary fraction in the file. */
const DECIMALS = 6;

const rounded = (value: number) => Number(value.toFixed(DECIMALS));

/** Returns the share of a percentage. */
export const shareOf = (percent: number) => Number((percent / 100).toFixed(DECIMALS + 2));

/** Returns a share in percent. */
export const percentOf = (share: number) => rounded(share * 100);

interface PercentFieldProps {
  label: string;
  share: number;
  isReadOnly: boolean;
  onChange(share: number): void;
}

/** A field for a share. The share changes while the text is a number from 0 to 100. */
export function PercentField({ label, share, isReadOnly, onChange }: PercentFieldProps): ReactNode {
  const [typed, setTyped] = useState<string | null>(null);
  const id = useId();
  const isPercent = (text: string) => text.trim() !== '' && Number(text) >= 0 && Number(text) <= 100;
  const shown = typed ?? String(percentOf(share));
  const change = (text: string) => {
    setTyped(text);
    if (isPercent(text)) onChange(shareOf(Number(text)));
  };
  return (
    <label className="px-field">
      <span>{label} (%)</span>
      <input className="px-short" inputMode="decimal" readOnly={isReadOnly} value={shown} aria-invalid={!isPercent(shown)} aria-describedby={isPercent(shown) ? undefined : id} onChange={(event) => change(event.currentTarget.value)} onBlur={() => setTyped(null)} />
      {!isPercent(shown) && <span id={id} className="px-fault">A number from 0 to 100.</span>}
    </label>
  );
}
