import { readFile } from 'node:fs/promises'
import { type InputValue, readInputs } from '#actions/workflow-parser/reading/given-inputs.ts'
import type { Workflow } from '#actions/workflow-parser/workflow.ts'
import { UsageError } from '../terminal/command-errors.ts'

const nameForm = /^[A-Za-z_][A-Za-z0-9_]*$/

/** Parses `name=value` words into the inputs of workflows. */
export function toInputs(words: string[], workflows: Workflow[]): Record<string, InputValue> {
  const given = Object.fromEntries(words.map((word) => toPair(word, '--input')))
  const all = workflows.map(({ on }) => on.dispatch?.inputs ?? {})
  for (const name of Object.keys(given)) {
    if (all.some((inputs) => Object.hasOwn(inputs, name))) continue
    throw new UsageError(`--input ${name}: no workflow has such an input.`)
  }
  const values: Record<string, InputValue> = {}
  for (const inputs of all) {
    const own = Object.entries(given).filter(([name]) => Object.hasOwn(inputs, name))
    const read = readInputs(inputs, Object.fromEntries(own))
    if ('faults' in read) throw new UsageError(read.faults.map(({ message }) => message).join('\n'))
    Object.assign(values, read.values)
  }
  return values
}

type Sources = {
  names: string[]
  file: string | undefined
  environment: Record<string, string | undefined>
}

/** Reads secrets from environment variables and a file; variables take precedence. */
export async function toSecrets({ names, file, environment }: Sources) {
  const text = file === undefined ? '' : await readFile(file, 'utf8').catch(toUsageError)
  const lines = text.split(/\r?\n/).filter((line) => line.trim() !== '' && !/^\s*#/.test(line))
  const secrets = lines.map((line) => toPair(line.replace(/^\s*export\s+/, ''), '--secrets-file'))
  for (const name of names) {
    const value = environment[name]
    if (value === undefined)
      throw new UsageError(`--secret ${name}: there is no environment variable of this name.`)
    secrets.push([name, value])
  }
  return Object.fromEntries(secrets.map(([name, value]) => [name, unquoted(value)]))
}

function toUsageError(error: Error): never {
  throw new UsageError(`--secrets-file: ${error.message}`)
}

function toPair(word: string, option: string): [string, string] {
  const at = word.indexOf('=')
  const name = word.slice(0, Math.max(0, at)).trim()
  // The line may hold a secret, so the error leaves it out.
  if (option === '--secrets-file' && !nameForm.test(name)) {
    throw new UsageError('--secrets-file: the file has a line that is not NAME=value.')
  }
  if (name === '') throw new UsageError(`${option} ${word}: the form is name=value.`)
  return [name, word.slice(at + 1)]
}

function unquoted(value: string): string {
  const [, , inner] = /^(["'])(.*)\1$/s.exec(value.trim()) ?? []
  return inner ?? value
}

/** Throws a UsageError unless each job of the command line exists. */
export function assertJobs(requested: string[], workflows: Workflow[]): void {
  const ids = workflows.flatMap(({ jobs }) => jobs.map(({ id }) => id))
  for (const id of requested) {
    if (!ids.includes(id)) throw new UsageError(`--job ${id}: the jobs are ${ids.join(', ')}.`)
  }
}
