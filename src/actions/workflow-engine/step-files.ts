import type { Workspace } from '../sandbox/sandbox.ts'
import { readSafely, writeFresh } from '../sandbox/workspace-files.ts'
import { maskAndShorten } from '../secret-masking/mask-and-shorten.ts'
import type { Masker } from '../secret-masking/masker.ts'
import { isFixed } from './variables.ts'

/** The contents of a step's environment files. */
type StepFileContents = {
  env: Record<string, string>
  outputs: Record<string, string>
  state: Record<string, string>
  path: string[]
  summary: string
  /** Lines for the log. */
  notes: string[]
  /** Why the step fails. */
  fault: string | undefined
}

const names = {
  env: 'env',
  output: 'output',
  path: 'path',
  state: 'state',
  step_summary: 'summary',
}
/** Bytes of a summary as JSON: it must fit into one report. */
const summaryMaxBytes = 256 * 1024
const quoteMaxLength = 100

export type StepFiles = ReturnType<typeof openStepFiles>

/** Writes the files of a step: its script, if it has one, and empty environment files. */
export function openStepFiles(
  workspace: Workspace,
  number: number,
  script: { name: string; text: string } | undefined,
) {
  const nameOf = (name: string) => `${number}-${name}`
  const scriptName = nameOf(script?.name ?? '')
  if (script) writeFresh(`${workspace.outside.files}/${scriptName}`, Buffer.from(script.text))
  for (const name of Object.values(names)) {
    writeFresh(`${workspace.outside.files}/${nameOf(name)}`, Buffer.alloc(0))
  }

  async function readText(file: EnvFileName, name: string): Promise<string> {
    const read = await readSafely(`${workspace.outside.files}/${nameOf(name)}`, envFileMaxBytes)
    if (read === 'absent') return ''
    if (read === 'not-a-file') throw new EnvFileError(`$${file} is no longer a regular file.`)
    if (read === 'too-large') {
      throw new EnvFileError(`$${file} is larger than ${envFileMaxBytes} bytes.`)
    }
    return read.toString()
  }

  return {
    /** The path of the script, as the step sees it. */
    script: `${workspace.inside.files}/${scriptName}`,
    /** The properties of `github` with the paths of the files. */
    github: Object.fromEntries(
      Object.entries(names).map(([key, name]) => [
        key,
        `${workspace.inside.files}/${nameOf(name)}`,
      ]),
    ),
    async read(masker: Masker): Promise<StepFileContents> {
      const contents: StepFileContents = {
        env: {},
        outputs: {},
        state: {},
        path: [],
        summary: '',
        notes: [],
        fault: undefined,
      }
      try {
        const env = await readText('GITHUB_ENV', names.env)
        for (const [name, value] of parseAssignments('GITHUB_ENV', env, quoteFrom(env, masker))) {
          assertMayBeSet(name)
          if (isFixed(name)) contents.notes.push(`$GITHUB_ENV: ${name} cannot be changed.`)
          else contents.env[name] = value
        }
        contents.path = parsePath(await readText('GITHUB_PATH', names.path))
        const output = await readText('GITHUB_OUTPUT', names.output)
        contents.outputs = Object.fromEntries(
          parseAssignments('GITHUB_OUTPUT', output, quoteFrom(output, masker)),
        )
        const state = await readText('GITHUB_STATE', names.state)
        contents.state = Object.fromEntries(
          parseAssignments('GITHUB_STATE', state, quoteFrom(state, masker)),
        )
        contents.summary = await readText('GITHUB_STEP_SUMMARY', names.step_summary)
        if (Buffer.byteLength(JSON.stringify(contents.summary)) > summaryMaxBytes) {
          contents.summary = ''
          contents.notes.push(
            `$GITHUB_STEP_SUMMARY: the summary exceeds ${summaryMaxBytes} bytes and is omitted.`,
          )
        }
      } catch (error) {
        if (!(error instanceof EnvFileError)) throw error
        contents.fault = error.message
      }
      return contents
    },
  }
}

// A line may be part of a multi-line secret, so nothing is quoted from a file that contains a secret.
function quoteFrom(text: string, { mask, finds }: Masker): (part: string) => string {
  return (part) =>
    `\`${finds(text) ? '***' : maskAndShorten(part, { mask, maxLength: quoteMaxLength })}\``
}

/** The environment files through which a step sets variables, outputs, PATH folders and its summary. */
type EnvFileName =
  | 'GITHUB_ENV'
  | 'GITHUB_OUTPUT'
  | 'GITHUB_PATH'
  | 'GITHUB_STATE'
  | 'GITHUB_STEP_SUMMARY'

/** The maximum size of each file, in bytes. */
const envFileMaxBytes = 1024 * 1024

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
