import type { MaskedStream, Masker } from '../../secret-masking/masker.ts'
import { createHeadAndTail } from './limited-output.ts'
import { createCommandReader, type LineCommand } from './line-commands.ts'

/** The maximum bytes of a line; a longer one continues on the next. */
const lineMaxBytes = 65_535
/** The maximum bytes of an `::add-mask::` line: more than the masker accepts, so no part of a value is cut off and shown. */
const maskLineMaxBytes = 1024 * 1024

/** Characters that a step may save with `::save-state::`. */
const stateMaxLength = 1024 * 1024

export type StepOutput = ReturnType<typeof createStepOutput>

type Options = {
  masker: Masker
  outputMaxBytes: number
  /** Receives whole lines, at most 64 KiB of UTF-8 at a time. */
  emit: (text: string) => Promise<void>
  onAnnotation: (command: LineCommand & { kind: 'annotation' }) => Promise<void>
  /** Whether the log has the lines of `::debug::`. */
  showsDebug: boolean
}

const nothing = Buffer.alloc(0)

/**
 * Processes the output of a step: executes workflow commands, masks secrets, and limits the output to its head and
 * tail.
 */
export function createStepOutput({
  masker,
  outputMaxBytes,
  emit,
  onAnnotation,
  showsDebug,
}: Options) {
  const readCommand = createCommandReader()
  const limited = createHeadAndTail({ maxBytes: outputMaxBytes, emit })
  const stream: MaskedStream = masker.stream()
  const shownOnce = new Set<string>()
  const state: Record<string, string> = {}
  let stateLength = 0
  let pieces: Buffer[] = []
  let pieceBytes = 0
  let isAtLineStart = true
  let last: Promise<void> = Promise.resolve()
  /** The maximum bytes of the current line. */
  let maxBytes = lineMaxBytes

  async function show(bytes: Buffer): Promise<void> {
    if (bytes.length === 0) return
    isAtLineStart = bytes.at(-1) === 0x0a
    await limited.push(bytes)
  }

  /** Runs works one after another, each in spite of a failure of the one before. */
  function inOrder(work: () => Promise<void>): Promise<void> {
    const result = last.then(work)
    last = result.catch(() => {})
    return result
  }

  async function take(lines: Buffer): Promise<void> {
    let from = 0
    // Fast path: most output has no `::`, and the search is cheap.
    for (const [start, end] of linesWithColons(lines)) {
      const command = readCommand(lines.toString('utf8', start, end))
      const replacement = command && (await execute(command, lines.subarray(start, end)))
      if (replacement === undefined) continue
      await show(stream.push(lines.subarray(from, start)))
      await show(stream.push(replacement))
      from = end
    }
    await show(stream.push(lines.subarray(from)))
  }

  async function push(bytes: Buffer): Promise<void> {
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
  }

  /** Executes a command; returns what the log shows instead of its line, if not the line. */
  async function execute(command: LineCommand, line: Buffer): Promise<Buffer | undefined> {
    switch (command.kind) {
      case 'add-mask':
        masker.add(command.value)
        // The line may contain the value in an escaped form, which is not masked.
        return Buffer.from('::add-mask::***\n')
      case 'save-state':
        saveState(command.name, command.value)
        return nothing
      case 'annotation':
        await onAnnotation(command)
        return undefined
      case 'debug':
        return showsDebug ? undefined : nothing
      case 'disabled':
        if (isRepeated(command.advice)) return undefined
        return Buffer.concat([line, Buffer.from(`${command.advice}\n`)])
    }
  }

  /** Whether a line that is shown once has been shown. */
  function isRepeated(line: string): boolean {
    if (shownOnce.has(line)) return true
    shownOnce.add(line)
    return false
  }

  const note = (text: string) =>
    inOrder(async () => {
      // The masker may hold back the rest of a line that is already shown.
      const start = isAtLineStart ? '' : '\n'
      await show(Buffer.from(start + masker.mask(text)))
    })

  function saveState(name: string, value: string): void {
    stateLength += name.length + value.length
    if (name !== '' && stateLength <= stateMaxLength) state[name] = value
  }

  return {
    /** The state that the step has saved with `::save-state::`. */
    state,
    /** Takes output; the caller must wait for the promise before the next call. */
    push: (bytes: Buffer) => inOrder(() => push(bytes)),
    /** Adds a line of the runner, also while there is output. It never separates the parts of a secret. */
    note,
    /** The same, unless the output has the line. */
    async noteOnce(text: string): Promise<void> {
      if (!isRepeated(text)) await note(text)
    },
    /** Emits the rest. */
    end: () =>
      inOrder(async () => {
        if (pieceBytes > 0) await take(Buffer.concat(pieces))
        await show(stream.end())
        await limited.end()
      }),
  }
}

function isMaskLine(line: Buffer): boolean {
  return /^::add-mask::/i.test(line.toString('latin1', 0, lineMaxBytes).trimStart())
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
