/** The editor library hashes the text of each style element with `object-hash`, which has 11 kB. The text itself is as good a key. */
export default (text: string): string => text;
