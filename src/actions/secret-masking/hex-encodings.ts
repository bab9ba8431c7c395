import type { Encoding } from './text-encodings.ts'
import { wrap } from './wrap.ts'

/** The line length of `xxd -p`. */
const lineWidth = 60

/** Hexadecimal encodings: contiguous, with spaces as by `od`, with colons, and in lines. */
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
