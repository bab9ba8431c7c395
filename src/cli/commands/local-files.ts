import { lstat, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { TriggerKind } from '#actions/workflow-engine/plan.ts'
import { checkFiles } from '#actions/workflow-parser/checker.ts'
import { parseFile, parseWorkflow } from '#actions/workflow-parser/reading/parse.ts'
import type { SourceFile, Workflow } from '#actions/workflow-parser/workflow.ts'
import { ignoreAbsence } from '#base/absence.ts'
import { checkSources, type Sources } from '#workflows/commits/workflow-sources.ts'
import type { LocatedFiles } from './locate-workflows.ts'
import { UsageError } from './usage-error.ts'

/** Reads workflow files of the disk, with the actions and workflows that they use; with an event, only those for it. */
export async function readLocalFiles(
  { top, paths }: LocatedFiles,
  event: TriggerKind | undefined,
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
function isFor(file: SourceFile, event: TriggerKind): boolean {
  const { workflow } = parseWorkflow(file)
  return workflow === undefined || reactsTo(workflow, event)
}

function reactsTo({ on }: Workflow, event: TriggerKind): boolean {
  if (event === 'push') return on.push !== undefined
  return event === 'schedule' ? on.schedule.length > 0 : on.dispatch !== undefined
}
