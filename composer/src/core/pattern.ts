// The syntax of regular expressions: that of the Rust crate `regex`, checked with the regular expressions of JavaScript.

/** The reason why a pattern is refused. */
export type PatternFault = 'syntax' | 'unsupported';

/**
 * Returns why the program refuses the pattern, or undefined if it probably accepts it. Patterns that few people write are refused or
 * accepted by mistake: the program decides in the end, also about the size of the automaton.
 */
export function patternFault(pattern: string): PatternFault | undefined {
  const written = toJavaScript(pattern);
  if (written === undefined) return 'unsupported';
  try {
    new RegExp(written, 'u');
    return undefined;
  } catch {
    return 'syntax';
  }
}

const hex = (char: string) => `\\x${char.charCodeAt(0).toString(16).padStart(2, '0')}`;

/** The parts of a pattern that both languages write differently. All else is one character. */
const TOKEN = new RegExp(
  [
    String.raw`\\(?<escaped>[xu]\{[0-9A-Fa-f]+\}|[pP]\{[^}]*\}|b\{[a-z-]+\}|[\s\S])`,
    String.raw`\(\?(?<group>=|!|<=|<!|P?<[^>]*>|[imsRUux-]+[:)])`,
    String.raw`(?<posix>\[:\^?[a-z]+:\])`,
    String.raw`(?<class>\[\^?\]?)`,
    String.raw`(?<repetition>\{\d+(?:,\d*)?\})`,
    String.raw`(?<set>&&|--|~~)`,
    String.raw`[\s\S]`,
  ].join('|'),
  'gu',
);

/** Returns the pattern in JavaScript, only for its syntax: nested classes are merged. Undefined if it has something without counterpart. */
function toJavaScript(pattern: string): string | undefined {
  let written = '';
  let depth = 0;
  for (const { 0: text, groups = {} } of pattern.matchAll(TOKEN)) {
    const { escaped, group, posix, class: opening, set } = groups;
    if (escaped !== undefined) {
      if (/^([0-9ck<>]|b\{.*)$/.test(escaped) || (depth > 0 && escaped === 'b')) return undefined;
      written += writtenEscape(escaped, text);
    } else if (depth === 0) {
      if (group && /^(=|!|<=|<!)$/.test(group)) return undefined;
      if (group?.endsWith(')')) written += '(?:)';
      else if (group?.endsWith(':')) written += '(?:';
      else if (group && !/^P?<[\p{L}_][\p{L}\p{N}_.[\]]*>$/u.test(group)) return undefined;
      else if (group) written += `(?${group.replace(/^P/, '').replace(/[.[\]]/g, '_')}`;
      else if (posix ?? opening) {
        depth = 1;
        written += posix ? '[a' : opening!.replace(']', '\\]');
      } else written += text === ']' || text === '}' ? `\\${text}` : text;
    } else if (text === ']') {
      depth -= 1;
      if (depth === 0) written += text;
    } else if (posix ?? set) written += posix ? 'a' : '';
    else if (opening) {
      depth += 1;
      written += opening.endsWith(']') ? '\\]' : '';
    } else written += /^[A-Za-z0-9^-]$/.test(text) || text > '\x7f' ? text : [...text].map(hex).join('');
  }
  return written;
}

function writtenEscape(escaped: string, text: string): string {
  if (escaped === 'A' || escaped === 'z') return '(?:)';
  if (escaped === 'a') return '\\x07';
  if (escaped.length > 1) return text.replace('x{', 'u{');
  return /^[!-/:-@[-`{-~ ]$/.test(escaped) ? hex(escaped) : text;
}
