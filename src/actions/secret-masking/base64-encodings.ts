import type { Encoding } from './text-encodings.ts'
import { wrap } from './wrap.ts'

/** The line lengths of `base64` and `openssl`. */
const widths = [76, 64]

/**
 * The base64 encodings in which a text of `byteLength` bytes can appear: at each of the three offsets in a group, only
 * the characters that encode nothing else, and at its end with and without padding; in both alphabets; and in lines.
 */
export function base64Encodings(byteLength: number): Encoding[] {
  const whole = [0, 1, 2].flatMap((before) =>
    tailsOf(before + byteLength).map((cut) => (text: string) => encode(text, { before, cut })),
  )
  // `echo` adds a line break, which shares a group with the last bytes.
  const echoed = (text: string) => encode(`${text}\n`, { before: 0, cut: 0 })
  const fromStart = [
    echoed,
    ...tailsOf(byteLength).map((cut) => (text: string) => encode(text, { before: 0, cut })),
  ]
  return [
    ...whole,
    ...whole.map((toBase64) => (text: string) => toUrlAlphabet(toBase64(text))),
    echoed,
    ...widths
      .filter((width) => (byteLength * 4) / 3 > width)
      .flatMap((width) =>
        fromStart.map((toBase64) => (text: string) => wrap(toBase64(text), width)),
      ),
  ]
}

/** The numbers of characters to cut at the end: padding, and the last character, which depends on the next byte. */
function tailsOf(byteLength: number): number[] {
  const rest = byteLength % 3
  if (rest === 0) return [0]
  return rest === 1 ? [0, 2, 3] : [0, 1, 2]
}

/** Encodes a text after `before` bytes in its first group, without the characters that encode some of those. */
function encode(text: string, { before, cut }: { before: number; cut: number }): string {
  const encoded = Buffer.concat([Buffer.alloc(before), Buffer.from(text)]).toString('base64')
  const skipped = before === 0 ? 0 : before + 1
  return encoded.slice(skipped, encoded.length - cut)
}

function toUrlAlphabet(base64: string): string {
  return base64.replaceAll('+', '-').replaceAll('/', '_')
}
