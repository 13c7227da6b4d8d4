/** Returns an address without the slashes at its end. The browser part has its own copies, which compress to fewer bytes. */
export function cutSlashes(address: string): string {
  return address.replace(/\/+$/, '');
}
