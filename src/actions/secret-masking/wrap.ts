/** Breaks an encoded text into lines of `width` characters. */
export function wrap(encoded: string, width: number): string {
  const lines: string[] = []
  for (let start = 0; start < encoded.length; start += width) {
    lines.push(encoded.slice(start, start + width))
  }
  return lines.join('\n')
}
