export function price(value: number, currency: string): string {
  return value.toLocaleString('en-GB', { style: 'currency', currency, currencyDisplay: 'code', minimumFractionDigits: value % 1 ? 2 : 0 });
}

export function weight(grams: number): string {
  return grams < 1000 ? `${grams}\u00a0g` : `${(grams / 1000).toFixed(2)}\u00a0kg`;
}
