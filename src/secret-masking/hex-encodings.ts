import type { Encoding } from './text-encodings.ts'
import { wrap } from './wrap.ts'

/** Characters in a line of `xxd -p`. */
const lineWidth = 60

/** Hexadecimal digits in one word, apart as `od` and debuggers write them, with colons, and in lines from the beginning. */
export function hexEncodings(byteLength: number): Encoding[] {
  const layouts: Encoding[] = [
    (hex) => hex,
    (hex) => hex.replaceAll(/..(?=.)/g, '$& '),
    (hex) => hex.replaceAll(/..(?=.)/g, '$&:'),
    ...(byteLength * 2 > lineWidth ? [(hex: string) => wrap(hex, lineWidth)] : []),
  ]
  return layouts.flatMap((layout) => [
    (text: string) => layout(toHex(text)),
    (text: string) => layout(toHex(text).toUpperCase()),
  ])
}

function toHex(text: string): string {
  return Buffer.from(text).toString('hex')
}
