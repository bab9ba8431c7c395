/** The environment files through which a step sets variables, outputs, PATH folders and its summary. */
export type EnvFileName =
  | 'GITHUB_ENV'
  | 'GITHUB_OUTPUT'
  | 'GITHUB_PATH'
  | 'GITHUB_STATE'
  | 'GITHUB_STEP_SUMMARY'

/** The maximum size of each file, in bytes. */
export const envFileMaxBytes = 1024 * 1024

/** An invalid environment file, which fails its step; the message names the line. */
export class EnvFileError extends Error {
  override readonly name = 'EnvFileError'
}

/**
 * Reads `name=value` lines and `name<<DELIMITER` with the value in the lines up to the delimiter, as GitHub does
 * for GITHUB_ENV and GITHUB_OUTPUT; the last value of a name counts. `quote` formats a part of the text for a message.
 * Throws an EnvFileError.
 */
export function parseAssignments(
  file: EnvFileName,
  text: string,
  quote: (part: string) => string,
): Map<string, string> {
  const values = new Map<string, string>()
  const lines = linesOf(text)
  for (let at = 0; at < lines.length; at++) {
    const line = lines[at] ?? ''
    if (line === '') continue
    const where = `$${file}, line ${at + 1}`
    const equals = line.indexOf('=')
    const heredoc = line.indexOf('<<')
    if (heredoc >= 0 && (equals < 0 || heredoc < equals)) {
      const delimiter = line.slice(heredoc + 2)
      const end = delimiter === '' ? -1 : lines.indexOf(delimiter, at + 1)
      if (delimiter === '') throw new EnvFileError(`${where}: the delimiter after << is missing.`)
      if (end < 0) {
        throw new EnvFileError(
          `${where}: no later line consists of the delimiter ${quote(delimiter)}.`,
        )
      }
      const value = lines.slice(at + 1, end).join('\n')
      values.set(nameIn(line.slice(0, heredoc), where), valueIn(file, value, where))
      at = end
    } else if (equals >= 0) {
      const value = line.slice(equals + 1)
      values.set(nameIn(line.slice(0, equals), where), valueIn(file, value, where))
    } else {
      throw new EnvFileError(
        `${where}: ${quote(line)} is neither name=value nor name<<DELIMITER; use the latter for values of several lines.`,
      )
    }
  }
  return values
}

/** Parses GITHUB_PATH, one folder per line, into search order: the last line comes first. */
export function parsePath(text: string): string[] {
  const lines = linesOf(text)
  const at = lines.findIndex((line) => line.includes('\0'))
  if (at >= 0) throw new EnvFileError(`$GITHUB_PATH, line ${at + 1}: the folder ${hasNul}.`)
  return lines.filter((line) => line !== '').reverse()
}

/** Throws an EnvFileError for a variable that no step may set for later steps. */
export function assertMayBeSet(name: string): void {
  // It could make Node programs of later steps load code that this step wrote. GitHub rejects it, too.
  if (name.toUpperCase() === 'NODE_OPTIONS') {
    throw new EnvFileError(
      'NODE_OPTIONS cannot be set through $GITHUB_ENV; set it in `env` of the step that needs it.',
    )
  }
}

const hasNul = 'holds a NUL character, which no variable can have'

/** The value of an assignment; outputs and states, which are no variables of the step itself, may have any. */
function valueIn(file: EnvFileName, value: string, where: string): string {
  if (file === 'GITHUB_ENV' && value.includes('\0'))
    throw new EnvFileError(`${where}: the value ${hasNul}.`)
  return value
}

function nameIn(text: string, where: string): string {
  if (text === '') throw new EnvFileError(`${where}: a name is missing before the value.`)
  if (text.includes('\0')) throw new EnvFileError(`${where}: a name holds a NUL character.`)
  return text
}

function linesOf(text: string): string[] {
  return text.replace(/^\u{feff}/u, '').split(/\r\n|\n/)
}
