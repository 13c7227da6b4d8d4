// A module of WebAssembly with the exports of `edge.wasm`, whose decisions panic.

/** The texts of the outputs, each with its address. */
const OPENED = { at: 16, status: 0, text: '{"site":"acme","version":"7"}' };
const PANIC = { at: 128, status: 1, text: 'the panic of a test' };
/** The address of the input. */
const INPUT_AT = 1024;

const [I32, F64] = [0x7f, 0x7c];
const [UNREACHABLE, I32_CONST, END] = [0x00, 0x41, 0x0b];

const unsigned = (value: number): number[] => (value < 0x80 ? [value] : [(value & 0x7f) | 0x80, ...unsigned(value >> 7)]);
const signed = (value: number): number[] => (value < 0x40 ? [value] : [(value & 0x7f) | 0x80, ...signed(value >> 7)]);
const list = (items: number[][]) => [...unsigned(items.length), ...items.flat()];
const section = (id: number, content: number[]) => [id, ...unsigned(content.length), ...content];
const name = (text: string) => [...unsigned(text.length), ...new TextEncoder().encode(text)];

function output({ at, status, text }: typeof OPENED): number[] {
  const content = [status, 0, 0, 0, ...unsigned(text.length), 0, 0, 0, ...new TextEncoder().encode(text)];
  return [0, I32_CONST, ...signed(at), END, ...unsigned(content.length), ...content];
}

/** The functions: their types by index, and their code. */
const FUNCTIONS: [string, number, number[]][] = [
  ['start', 0, []],
  ['set_now_ms', 0, []],
  ['input', 1, [I32_CONST, ...signed(INPUT_AT)]],
  ['last_panic', 2, [I32_CONST, ...signed(PANIC.at)]],
  ['open_rules', 2, [I32_CONST, ...signed(OPENED.at)]],
  ['decide', 2, [UNREACHABLE]],
];

export const TRAPPING_MODULE = Uint8Array.from([
  ...[0, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
  ...section(1, list([[0x60, 1, F64, 0], [0x60, 1, I32, 1, I32], [0x60, 0, 1, I32]])),
  ...section(3, list(FUNCTIONS.map(([, type]) => [type]))),
  ...section(5, list([[0, 1]])),
  ...section(7, list([[...name('memory'), 2, 0], ...FUNCTIONS.map(([text], i) => [...name(text), 0, i])])),
  ...section(10, list(FUNCTIONS.map(([, , code]) => [...unsigned(code.length + 2), 0, ...code, END]))),
  ...section(11, list([output(OPENED), output(PANIC)])),
]);
