import type { Encoding } from './text-encodings.ts'
import { wrap } from './wrap.ts'

/** Widths at which programs break base64 into lines: `base64` and `openssl`. */
const widths = [76, 64]

/**
 * The ways in which a text of so many bytes shows in base64: for each of the three places that it can have in a
 * group, the characters that hold nothing else, and those of its very end with and without padding; in both
 * alphabets; and from its beginning in lines.
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

/** How many characters are left out at the end: of the padding, and the last that depends on what follows. */
function tailsOf(byteLength: number): number[] {
  const rest = byteLength % 3
  if (rest === 0) return [0]
  return rest === 1 ? [0, 2, 3] : [0, 1, 2]
}

/** `before` bytes stand before the text in its first group; the characters that hold some of them are left out. */
function encode(text: string, { before, cut }: { before: number; cut: number }): string {
  const encoded = Buffer.concat([Buffer.alloc(before), Buffer.from(text)]).toString('base64')
  const skipped = before === 0 ? 0 : before + 1
  return encoded.slice(skipped, encoded.length - cut)
}

function toUrlAlphabet(base64: string): string {
  return base64.replaceAll('+', '-').replaceAll('/', '_')
}
