import type { MaskedStream, Masker } from '../secret-masking/masker.ts'
import { createHeadAndTail } from './head-and-tail.ts'
import { createCommandReader } from './line-commands.ts'

/** The maximum bytes of a line; a longer one continues on the next. */
const lineMaxBytes = 65_535
/** The maximum bytes of an `::add-mask::` line: more than the masker accepts, so no part of a value is cut off and shown. */
const maskLineMaxBytes = 1024 * 1024

type Options = {
  masker: Masker
  outputMaxBytes: number
  /** Receives whole lines, at most 64 KiB of UTF-8 at a time. */
  emit: (text: string) => Promise<void>
}

/**
 * Processes the output of a step: executes workflow commands, masks secrets, and limits the output to its head and
 * tail.
 */
export function createStepOutput({ masker, outputMaxBytes, emit }: Options) {
  const readCommand = createCommandReader()
  const limited = createHeadAndTail({ maxBytes: outputMaxBytes, emit })
  const stream: MaskedStream = masker.stream()
  const shownAdvice = new Set<string>()
  let pieces: Buffer[] = []
  let pieceBytes = 0
  /** The maximum bytes of the current line. */
  let maxBytes = lineMaxBytes

  async function take(lines: Buffer): Promise<void> {
    let from = 0
    // Fast path: most output has no `::`, and the search is cheap.
    for (const [start, end] of linesWithColons(lines)) {
      const command = readCommand(lines.toString('utf8', start, end))
      if (command?.kind === 'add-mask') {
        masker.add(command.value)
        await limited.push(stream.push(lines.subarray(from, start)))
        // The line may contain the value in an escaped form, which is not masked.
        await limited.push(stream.push(Buffer.from('::add-mask::***\n')))
        from = end
      }
      if (command?.kind !== 'disabled' || shownAdvice.has(command.advice)) continue
      shownAdvice.add(command.advice)
      await limited.push(stream.push(lines.subarray(from, end)))
      await limited.push(stream.push(Buffer.from(`${command.advice}\n`)))
      from = end
    }
    await limited.push(stream.push(lines.subarray(from)))
  }

  return {
    /** Takes output; the caller must wait for the promise before the next call. */
    async push(bytes: Buffer): Promise<void> {
      const end = bytes.lastIndexOf(0x0a) + 1
      const whole = end > 0 ? Buffer.concat([...pieces, bytes.subarray(0, end)]) : undefined
      if (whole) [pieces, pieceBytes, maxBytes] = [[], 0, lineMaxBytes]
      if (end < bytes.length) {
        pieces.push(bytes.subarray(end))
        pieceBytes += bytes.length - end
      }
      if (whole) await take(whole)
      if (pieceBytes < maxBytes) return
      const long = Buffer.concat(pieces)
      if (pieceBytes < maskLineMaxBytes && isMaskLine(long)) {
        maxBytes = maskLineMaxBytes
        return
      }
      ;[pieces, pieceBytes, maxBytes] = [[], 0, lineMaxBytes]
      await take(long)
    },
    /** Adds a line of the runner to the output. */
    async note(text: string): Promise<void> {
      await limited.push(Buffer.from(masker.mask(text)))
    },
    /** Emits the rest. */
    async end(): Promise<void> {
      if (pieceBytes > 0) await take(Buffer.concat(pieces))
      await limited.push(stream.end())
      await limited.end()
    },
  }
}

function isMaskLine(line: Buffer): boolean {
  return line.toString('latin1', 0, lineMaxBytes).trimStart().startsWith('::add-mask::')
}

function* linesWithColons(bytes: Buffer): Generator<[start: number, end: number]> {
  let end = 0
  for (let at = bytes.indexOf('::'); at >= 0; at = bytes.indexOf('::', end)) {
    const start = Math.max(end, bytes.lastIndexOf(0x0a, at) + 1)
    const lineEnd = bytes.indexOf(0x0a, at)
    end = lineEnd < 0 ? bytes.length : lineEnd + 1
    yield [start, end]
  }
}
