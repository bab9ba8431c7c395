import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { gitCommands } from '#git/process/commands.ts'
import type { Git } from '#git/process/git-process.ts'
import { UsageError } from '../terminal/command-errors.ts'

/** A repository with a working tree. */
export type WorkingTree = {
  folder: string
  gitFolder: string
  /** Undefined before the first commit. */
  commit: string | undefined
  /** For example `refs/heads/main`; `refs/tags/<commit>` for a detached HEAD. */
  ref: string
}

/** Finds the repository that contains a folder. */
export async function findWorkingTree(git: Git, from: string): Promise<WorkingTree> {
  const folder = findTop(from)
  if (folder === undefined)
    throw new UsageError('The current directory is not in a Git repository.')
  const gitFolder = join(folder, '.git')
  const status = await git.run(gitCommands.describeHead(gitFolder, folder))
  const lines = status.split('\0')
  const headerOf = (name: string) =>
    lines.find((line) => line.startsWith(`# branch.${name} `))?.slice(`# branch.${name} `.length)
  const oid = headerOf('oid') ?? ''
  const head = headerOf('head') ?? ''
  const commit = /^[0-9a-f]+$/.test(oid) ? oid : undefined
  const ref = head === '(detached)' ? `refs/tags/${oid}` : `refs/heads/${head}`
  return { folder, gitFolder, commit, ref }
}

/** Lists the paths of all files except ignored ones. */
export async function listFiles(git: Git, { folder, gitFolder }: WorkingTree): Promise<string[]> {
  const list = await git.run(gitCommands.listFiles(gitFolder, folder))
  return [...new Set(list.split('\0').filter((path) => path !== ''))]
}

/** Finds the top of the repository that contains a folder. */
export function findTop(from: string): string | undefined {
  if (existsSync(join(from, '.git'))) return from
  const parent = dirname(from)
  return parent === from ? undefined : findTop(parent)
}
