import type { Workspace } from '../sandbox/sandbox.ts'
import { readSafely, writeFresh } from '../sandbox/workspace-files.ts'
import { maskAndShorten } from '../secret-masking/mask-and-shorten.ts'
import type { Masker } from '../secret-masking/masker.ts'
import {
  assertMayBeSet,
  EnvFileError,
  type EnvFileName,
  envFileMaxBytes,
  parseAssignments,
  parsePath,
} from './env-files.ts'
import { isFixed } from './variables.ts'

/** What a step left in its files. */
type Left = {
  env: Record<string, string>
  outputs: Record<string, string>
  path: string[]
  summary: string
  /** Lines for whoever reads the log. */
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
/** Bytes of a summary as JSON: it is told whole, in one report. */
const summaryMaxBytes = 256 * 1024
const quoteMaxLength = 100

/** Writes the files of a step: its script, and those by which it can tell something. */
export function openStepFiles(room: Workspace, number: number, scriptName: string, script: string) {
  const nameOf = (name: string) => `${number}-${name}`
  writeFresh(`${room.outside.files}/${nameOf(scriptName)}`, Buffer.from(script))
  for (const name of Object.values(names)) {
    writeFresh(`${room.outside.files}/${nameOf(name)}`, Buffer.alloc(0))
  }

  async function readText(file: EnvFileName, name: string): Promise<string> {
    const read = await readSafely(`${room.outside.files}/${nameOf(name)}`, envFileMaxBytes)
    if (read === 'absent') return ''
    if (read === 'not-a-file') throw new EnvFileError(`$${file} is no plain file any more.`)
    if (read === 'too-large') {
      throw new EnvFileError(`$${file} is larger than ${envFileMaxBytes} bytes.`)
    }
    return read.toString()
  }

  return {
    /** As the step sees it. */
    script: `${room.inside.files}/${nameOf(scriptName)}`,
    /** Properties of `github` that say where the files are. */
    github: Object.fromEntries(
      Object.entries(names).map(([key, name]) => [key, `${room.inside.files}/${nameOf(name)}`]),
    ),
    async read(masker: Masker): Promise<Left> {
      const left: Left = {
        env: {},
        outputs: {},
        path: [],
        summary: '',
        notes: [],
        fault: undefined,
      }
      try {
        const env = await readText('GITHUB_ENV', names.env)
        for (const [name, value] of parseAssignments('GITHUB_ENV', env, quoteFrom(env, masker))) {
          assertMayBeSet(name)
          if (isFixed(name))
            left.notes.push(`$GITHUB_ENV: ${name} stays as it is; nothing can change it.`)
          else left.env[name] = value
        }
        left.path = parsePath(await readText('GITHUB_PATH', names.path))
        const output = await readText('GITHUB_OUTPUT', names.output)
        left.outputs = Object.fromEntries(
          parseAssignments('GITHUB_OUTPUT', output, quoteFrom(output, masker)),
        )
        left.summary = await readText('GITHUB_STEP_SUMMARY', names.step_summary)
        if (Buffer.byteLength(JSON.stringify(left.summary)) > summaryMaxBytes) {
          left.summary = ''
          left.notes.push(
            `$GITHUB_STEP_SUMMARY: it is longer than ${summaryMaxBytes} bytes, and left out.`,
          )
        }
      } catch (error) {
        if (!(error instanceof EnvFileError)) throw error
        left.fault = error.message
      }
      return left
    },
  }
}

// A line may be a part of a secret of several lines, so nothing of a file that holds a secret is quoted.
function quoteFrom(text: string, { mask, finds }: Masker): (part: string) => string {
  return (part) =>
    `\`${finds(text) ? '***' : maskAndShorten(part, { mask, maxLength: quoteMaxLength })}\``
}
