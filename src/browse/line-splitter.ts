const lineFeed = 0x0a

/** Splits output into lines of bytes (latin1), without their ends. Lines longer than the limit are cut. */
export function createLineSplitter(
  maxLength: number,
  lineEnd = lineFeed,
): (chunk: Buffer) => Generator<string, void, undefined> {
  let rest = ''

  function take(chunk: Buffer, from: number, to: number): string {
    const end = Math.min(to, from + maxLength - rest.length)
    return rest + chunk.toString('latin1', from, Math.max(from, end))
  }

  return function* split(chunk) {
    let from = 0
    for (let end = chunk.indexOf(lineEnd); end !== -1; end = chunk.indexOf(lineEnd, from)) {
      const line = take(chunk, from, end)
      rest = ''
      from = end + 1
      yield line
    }
    rest = take(chunk, from, chunk.length)
  }
}

/** The lines of output. */
export async function* latin1Lines(
  output: AsyncIterable<Buffer>,
  maxLength: number,
): AsyncGenerator<string, void, undefined> {
  const split = createLineSplitter(maxLength)
  for await (const chunk of output) yield* split(chunk)
}
