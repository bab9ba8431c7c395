import { statSync } from 'node:fs'
import { lstat, readdir, readFile } from 'node:fs/promises'
import { basename, dirname, join, relative, resolve, sep } from 'node:path'
import type { TriggerKind } from '#actions/workflow-engine/plan.ts'
import { checkFiles } from '#actions/workflow-parser/checker.ts'
import { parseFile, parseWorkflow } from '#actions/workflow-parser/reading/parse.ts'
import type { SourceFile, Workflow } from '#actions/workflow-parser/workflow.ts'
import { ignoreAbsence } from '#base/absence.ts'
import { checkSources, type Sources } from '#workflows/commits/workflow-sources.ts'
import { UsageError } from '../terminal/command-errors.ts'
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

/** An event that needs no server. */
export type LocalEvent = Exclude<TriggerKind, 'pull_request' | 'merge_group'>

/** Reads workflow files of the disk, with the actions and workflows that they use; with an event, only those for it. */
export async function readLocalFiles(
  { top, paths }: LocatedFiles,
  event: LocalEvent | undefined,
): Promise<Sources> {
  const read = (path: string) => readFile(join(top, path), 'utf8')
  const all = await Promise.all(paths.map(async (path) => ({ path, text: await read(path) })))
  const files = event ? all.filter((file) => isFor(file, event)) : all
  if (files.length === 0) throw new UsageError(`There is no workflow file for ${event}.`)
  const checker = {
    check: (chosen: SourceFile[], actions: SourceFile[], called: SourceFile[] = []) =>
      checkFiles(async (kind, file) => parseFile(kind, file), { files: chosen, actions, called }),
  }
  return checkSources(checker, files, async (path) => {
    const stats = await lstat(join(top, path)).catch(ignoreAbsence)
    return stats?.isFile() ? { path, text: await read(path) } : undefined
  })
}

// A file with faults is for every event, so that they are reported.
function isFor(file: SourceFile, event: LocalEvent): boolean {
  const { workflow } = parseWorkflow(file)
  return workflow === undefined || reactsTo(workflow, event)
}

function reactsTo({ on }: Workflow, event: LocalEvent): boolean {
  if (event === 'push') return on.push !== undefined
  return event === 'schedule' ? on.schedule.length > 0 : on.dispatch !== undefined
}
