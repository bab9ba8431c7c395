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
