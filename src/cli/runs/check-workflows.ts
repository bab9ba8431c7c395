import { join, relative } from 'node:path'
import type { Toolset } from '#actions/tool-cache/toolset.ts'
import { usedSecrets } from '#actions/workflow-parser/named-secrets.ts'
import { formatFaults, formatNotes } from '#actions/workflow-parser/source/fault-list.ts'
import { isSecretIdentifier } from '#actions/workflow-parser/source/fields.ts'
import type { SourceFile, Workflow } from '#actions/workflow-parser/workflow.ts'
import type { Terminal } from '../terminal/terminal.ts'
import {
  type LocalEvent,
  type LocatedFiles,
  locateAnywhere,
  readLocalFiles,
} from './local-files.ts'
import { toolNotes } from './local-tools.ts'
import { assertJobs } from './run-values.ts'

type Options = {
  names: string[]
  jobs: string[]
  event: LocalEvent | undefined
  /** The current directory, which paths of messages are relative to. */
  folder: string
  /** The tools of this machine. */
  toolset: Toolset
  /** Returns lines about hosts that steps will not reach. */
  adviseOnNetwork: (workflows: readonly Workflow[]) => Promise<string[]>
  terminal: Pick<Terminal, 'out' | 'err'>
}

/** `svc run --check`: checks workflow files where they are. Returns the exit code, 2 for invalid files. */
export async function checkWorkflows(options: Options): Promise<number> {
  const { names, jobs, event, folder, toolset, adviseOnNetwork, terminal } = options
  const located = await locateAnywhere(names, folder)
  const found = await Promise.all(
    located.map((files) =>
      readRelative(files, names.length > 0 ? undefined : event, { folder, toolset }),
    ),
  )
  const faults = found.flatMap((one) => one.faults)
  const notes = formatNotes(found.flatMap((one) => one.notes)).map((line) => `${line}\n`)
  if (faults.length > 0) {
    terminal.err([...formatFaults(faults).map((line) => `${line}\n`), ...notes].join(''))
    return 2
  }
  const workflows = found.flatMap((one) => one.workflows)
  assertJobs(jobs, workflows)
  const files = found.flatMap((one) => one.files)
  const skipped = Object.assign({}, ...found.map((one) => one.skipped))
  terminal.out(
    workflows.map((one) => `${one.path}: fine, ${countRunnable(one, skipped)}\n`).join(''),
  )
  const ofNetwork = await adviseOnNetwork(workflows)
  terminal.err([...notes, ...ofNetwork, ...secretsAdvice(workflows, files)].join(''))
  return 0
}

/** Says how many jobs of a file a runner can run. */
function countRunnable({ path, jobs }: Workflow, skipped: Record<string, string[]>): string {
  const runnable = jobs.length - (skipped[path]?.length ?? 0)
  if (runnable < jobs.length) return `${runnable} of ${jobs.length} jobs can run`
  return jobs.length === 1 ? 'its job can run' : `all ${jobs.length} jobs can run`
}

/** Reads files of a repository, with their paths relative to a folder. */
async function readRelative(
  files: LocatedFiles,
  event: LocalEvent | undefined,
  { folder, toolset }: Pick<Options, 'folder' | 'toolset'>,
) {
  const found = await readLocalFiles(files, event)
  const notes = [...found.notes, ...(await toolNotes(found.workflows, toolset, files.top))]
  const toRelative = (path: string) => relative(folder, join(files.top, path))
  return {
    files: found.files.map((one) => ({ ...one, path: toRelative(one.path) })),
    workflows: found.workflows.map((one) => ({ ...one, path: toRelative(one.path) })),
    skipped: Object.fromEntries(
      Object.entries(found.skipped).map(([path, jobs]) => [toRelative(path), jobs]),
    ),
    faults: found.faults.map((one) => ({ ...one, file: toRelative(one.file) })),
    notes: notes.map((one) => ({ ...one, file: toRelative(one.file) })),
  }
}

/** Returns a line per workflow that inherits all secrets, with the list that its expressions need. */
export function secretsAdvice(workflows: readonly Workflow[], files: readonly SourceFile[]) {
  return workflows
    .filter(({ secrets }) => secrets === 'inherit')
    .map(({ path }) => {
      const text = files.find((file) => file.path === path)?.text ?? ''
      const list = [...new Set(usedSecrets(text))].filter(isSecretIdentifier).sort().join(', ')
      return (
        `${path}: "secrets: inherit" gives its steps every secret of the repository, also those that are added later. ` +
        `Recommended: leave it out, so that they get those that the file names, or list them, "secrets: [${list}]".\n`
      )
    })
}
