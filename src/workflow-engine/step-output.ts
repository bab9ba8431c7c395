import type { MaskedStream, Masker } from '../secret-masking/masker.ts'
import { createHeadAndTail } from './head-and-tail.ts'
import { createCommandReader } from './line-commands.ts'

/** Bytes of a line; a longer one goes on in the next. */
const lineMaxBytes = 65_535
/** Bytes of a line that masks a value: more than a masker takes, so that no rest of a value shows in a next line. */
const maskLineMaxBytes = 1024 * 1024

type Options = {
  masker: Masker
  outputMaxBytes: number
  /** Gets whole lines, at most 64 KiB of UTF-8 at a time. */
  emit: (text: string) => Promise<void>
}

/**
 * What a step writes, on its way to whoever reads it: commands in it are obeyed, secrets masked, and of very much
 * the head and the tail are kept.
 */
export function createStepOutput({ masker, outputMaxBytes, emit }: Options) {
  const readCommand = createCommandReader()
  const kept = createHeadAndTail({ maxBytes: outputMaxBytes, emit })
  const stream: MaskedStream = masker.stream()
  const advised = new Set<string>()
  let pieces: Buffer[] = []
  let pieceBytes = 0
  /** After how many bytes the line that is being read is cut. */
  let maxBytes = lineMaxBytes

  async function take(lines: Buffer): Promise<void> {
    let from = 0
    // Nearly always there is none: a search for two characters costs little.
    for (const [start, end] of linesWithColons(lines)) {
      const command = readCommand(lines.toString('utf8', start, end))
      if (command?.kind === 'add-mask') {
        masker.add(command.value)
        await kept.push(stream.push(lines.subarray(from, start)))
        // The value stands there in another form than the one that is masked from now on.
        await kept.push(stream.push(Buffer.from('::add-mask::***\n')))
        from = end
      }
      if (command?.kind !== 'disabled' || advised.has(command.advice)) continue
      advised.add(command.advice)
      await kept.push(stream.push(lines.subarray(from, end)))
      await kept.push(stream.push(Buffer.from(`${command.advice}\n`)))
      from = end
    }
    await kept.push(stream.push(lines.subarray(from)))
  }

  return {
    /** Takes what it writes; what it writes next should wait for the promise. */
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
    /** A line of the runner's own among those of the step. */
    async note(text: string): Promise<void> {
      await kept.push(Buffer.from(masker.mask(text)))
    },
    /** Tells the rest. */
    async end(): Promise<void> {
      if (pieceBytes > 0) await take(Buffer.concat(pieces))
      await kept.push(stream.end())
      await kept.end()
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
