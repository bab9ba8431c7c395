import { type Logger, pino } from 'pino'
import { redactTokens } from './redact-tokens.ts'

export type Log = Pick<Logger, 'debug' | 'info' | 'warn' | 'error'>

type Options = {
  level: string
  output: NodeJS.WritableStream & { isTTY?: boolean }
}

/**
 * Creates the program's log: a line of JSON for each entry, or a short line for people on a terminal.
 * Tokens and secrets are `Sensitive` values, which print as `[hidden]`. Any other text with the shape of a token, such
 * as a path that a client sent, is redacted in the finished line.
 */
export function createLog({ level, output }: Options): Log {
  const destination = {
    write(line: string) {
      const redacted = redactTokens(line)
      output.write(output.isTTY ? toTerminalLine(redacted) : redacted)
    },
  }
  return pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
    },
    destination,
  )
}

function toTerminalLine(line: string): string {
  const { level, time, msg, err, ...rest } = JSON.parse(line)
  const fields = Object.entries(rest).map(([key, value]) => `${key}=${JSON.stringify(value)}`)
  const stack = err?.stack ? `\n${err.stack}` : ''
  const text = [
    String(time).slice(11, 19),
    String(level).toUpperCase().padEnd(5),
    msg,
    ...fields,
  ].join(' ')
  // Fields are JSON, which escapes control characters; messages and stacks are not.
  return `${(text + stack).replace(/[\0-\x08\x0b-\x1f\x7f]/g, '?')}\n`
}
