import type { Terminal } from '../commands/terminal.ts'

/** What client commands use of the process. */
export type ClientContext = {
  version: string
  terminal: Terminal
  environment: NodeJS.ProcessEnv
  /** The current directory. */
  folder: string
  /** The path of this program, for Git's credential helper. */
  launcher: string
  /** The width of standard output; undefined if it is not a terminal. */
  columns: number | undefined
  setExitCode: (code: number) => void
}

/** Commander's values of the options of a command. */
export type OptionValues = Record<string, string | string[] | boolean | undefined>

/** What commands do with a data directory, by their words. */
export type LocalActions = Record<string, (names: string[], options: OptionValues) => Promise<void>>
