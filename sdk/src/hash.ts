/** Returns FNV-1a over the UTF-16 units of a text: 32 bits, 8 hex digits. Not for secrets. */
export function fnv1a(text: string): string {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return (hash >>> 0).toString(16).padStart(8, '0');
}

/** Returns the hash by which a static page recognizes the decision that its visitor got. */
export function decisionHash(route: string, variants: string, anonId: string | null | undefined): string {
  return fnv1a(`${route}\n${variants}\n${anonId ?? ''}`);
}
