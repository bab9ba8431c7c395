import { CommanderError } from 'commander'
import { SettingsError } from '#config/settings.ts'
import { CommandError } from '../client/command-error.ts'
import { exitCodeOfUsage } from './program.ts'
import { UsageError } from './usage-error.ts'

/** How a command ends that fails. */
type Failure = {
  /** What is printed. */
  text: string
  exitCode: number
  /** Whether it is no bug. */
  isExpected: boolean
}

// By name: their modules are loaded with the commands that use them.
const expectedErrors = new Set([
  'BackupError',
  'CommandError',
  'DataDirectoryError',
  'Problem',
  'RunnerError',
  'SettingsError',
  'UsageError',
])

/** Translates an error of a command. Expected errors are one line; any other error is a bug and shows its stack. */
export function toFailure(error: unknown): Failure {
  // Commander has printed it.
  if (error instanceof CommanderError)
    return { text: '', exitCode: exitCodeOfUsage(error), isExpected: true }
  const isExpected = isExpectedError(error)
  const text = explain(error, isExpected).replace(/^(?=.)/gm, 'svc: ')
  return { text: `${text}\n`, exitCode: exitCodeOf(error), isExpected }
}

function isExpectedError(error: unknown): boolean {
  if (!(error instanceof Error)) return true
  const isFromSystem = 'code' in error || error.constructor === Error
  return expectedErrors.has(error.name) || isFromSystem
}

function explain(error: unknown, isExpected: boolean): string {
  if (!(error instanceof Error)) return String(error)
  return isExpected ? error.message : (error.stack ?? error.message)
}

function exitCodeOf(error: unknown): number {
  if (error instanceof CommandError) return error.exitCode
  return error instanceof SettingsError || error instanceof UsageError ? 2 : 1
}
