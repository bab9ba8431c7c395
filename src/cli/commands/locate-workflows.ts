import { statSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { basename, dirname, join, relative, resolve, sep } from 'node:path'
import { ignoreAbsence } from '#base/absence.ts'
import { UsageError } from './usage-error.ts'
import { findTop } from './working-tree.ts'

/** Files by their paths from the folder in which their actions and workflows are found: the top of a repository. */
export type LocatedFiles = { top: string; paths: string[] }

/** The folders of workflow files, the preferred one first. */
const workflowFolders = ['.svc/workflows', '.github/workflows']

/** Finds the named files of one repository; without names, those of its first folder that has any. */
export async function locateWorkflows(
  top: string,
  { names, from }: { names: string[]; from: string },
): Promise<LocatedFiles> {
  if (names.length === 0) return { top, paths: await listWorkflows(top) }
  const paths = names.map((name) => {
    const path = relative(top, find(name, from, top))
    if (!path.split(sep).includes('..')) return path
    throw new UsageError(`${name} is not in this repository; --check checks it where it is.`)
  })
  return { top, paths }
}

/** Finds the named files wherever they are, each with the top of its own repository. */
export async function locateAnywhere(names: string[], from: string): Promise<LocatedFiles[]> {
  const here = findTop(from)
  if (names.length === 0) {
    if (here === undefined) {
      throw new UsageError('The current directory is not in a Git repository; name the files.')
    }
    return [await locateWorkflows(here, { names, from })]
  }
  const files = names.map((name) => find(name, from, here))
  const byTop = Map.groupBy(files, (file) => findTop(dirname(file)) ?? topWithoutGit(file))
  return [...byTop].map(([top, found]) => ({
    top,
    paths: found.map((file) => relative(top, file)),
  }))
}

function find(name: string, from: string, top: string | undefined): string {
  const folders = top === undefined ? [] : ['.', ...workflowFolders].map((one) => join(top, one))
  const candidates = [from, ...folders].map((folder) => resolve(folder, name))
  const file = candidates.find((one) => statSync(one, { throwIfNoEntry: false })?.isFile())
  if (file !== undefined) return file
  const where = top === undefined ? '' : ` in ${workflowFolders.join(' or ')} of this repository`
  throw new UsageError(`${name} is not a file${where}.`)
}

/** The folder that contains `.github/workflows`, or else the file. */
function topWithoutGit(file: string): string {
  const folder = dirname(file)
  const isInWorkflows = workflowFolders.includes(`${basename(dirname(folder))}/${basename(folder)}`)
  return isInWorkflows ? dirname(dirname(folder)) : folder
}

async function listWorkflows(top: string): Promise<string[]> {
  for (const folder of workflowFolders) {
    const names = (await readdir(join(top, folder)).catch(ignoreAbsence)) ?? []
    const files = names.filter((name) => /\.ya?ml$/.test(name)).sort()
    if (files.length > 0) return files.map((name) => `${folder}/${name}`)
  }
  throw new UsageError(`There is no workflow file in ${workflowFolders.join(' or ')}.`)
}
