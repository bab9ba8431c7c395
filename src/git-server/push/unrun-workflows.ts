import {
  githubFolder,
  isWorkflowName,
  workflowsFolder,
} from '#actions/workflow-parser/workflow-folders.ts'
import { formatOf } from '#base/object-id.ts'
import { shQuote } from '#base/shell-word.ts'
import type { ObjectReader } from '#git/objects/object-reader.ts'
import { entriesOfTree } from '#git/objects/tree-buffer.ts'
import { zeroId } from '#git/refs/ref-name.ts'
import { branchPrefix, type RefUpdate, readDefaultBranch, readRefs } from '#git/refs/refs.ts'

// A push of many branches is one of a whole repository, in which most have the same files.
const maxBranches = 20
const treeMaxBytes = 64 * 1024
const fileMaxBytes = 256 * 1024
const maxFiles = 20

type Pushed = {
  directory: string
  /** Sees the objects of the push. */
  reader: ObjectReader
  updates: readonly RefUpdate[]
}

/** Lines for the client's terminal about new workflow files in GitHub's folder. */
export async function unrunWorkflows(pushed: Pushed): Promise<string[]> {
  const { directory, reader, updates } = pushed
  const branches = updates.filter(
    ({ ref, after }) => ref.startsWith(branchPrefix) && after !== zeroId,
  )
  for (const { before, after } of branches.slice(0, maxBranches)) {
    if (!(await reader.find(`${after}:${githubFolder}`))) continue
    const base = before === zeroId ? await baseOf(directory, updates) : before
    const names = await findUnrun(reader, { base, after })
    if (names.length === 0) continue
    const hasOwn = await reader.find(`${after}:${workflowsFolder}`)
    const command = hasOwn
      ? `git mv ${names.map((name) => toWord(`${githubFolder}/${name}`)).join(' ')} ${workflowsFolder}/`
      : `mkdir -p .svc && git mv ${githubFolder} ${workflowsFolder}`
    return [`Workflows in ${githubFolder} are not run here. To run them, move them: ${command}`]
  }
  return []
}

/** What a new branch is compared with: the default branch before the push. */
async function baseOf(directory: string, updates: Pushed['updates']): Promise<string | undefined> {
  const ref = branchPrefix + (await readDefaultBranch(directory))
  const pushed = updates.find((update) => update.ref === ref)
  const base = pushed ? pushed.before : (await readRefs(directory, [ref])).get(ref)
  return base === zeroId ? undefined : base
}

/** The names of the files that differ from those of the base, and that no workflow here is or calls. */
async function findUnrun(
  reader: ObjectReader,
  { base, after }: { base: string | undefined; after: string },
): Promise<string[]> {
  const [theirs, former, own] = await Promise.all([
    readFiles(reader, `${after}:${githubFolder}`),
    base === undefined ? new Map() : readFiles(reader, `${base}:${githubFolder}`),
    readFiles(reader, `${after}:${workflowsFolder}`),
  ])
  const changed = [...theirs].filter(([name, id]) => former.get(name) !== id && !own.has(name))
  const unrun: string[] = []
  for (const [name, id] of changed.slice(0, maxFiles)) {
    const file = await reader.read(id, fileMaxBytes)
    if (file && !file.content.includes('workflow_call')) unrun.push(name)
  }
  return unrun
}

/** The ids of the workflow files of a folder by their names. */
async function readFiles(reader: ObjectReader, folder: string): Promise<Map<string, string>> {
  const tree = await reader.read(folder, treeMaxBytes)
  const entries =
    tree?.type === 'tree' ? [...entriesOfTree(tree.content, 'utf8', formatOf(tree.id))] : []
  const files = entries.filter(({ mode, name }) => mode.startsWith('100') && isWorkflowName(name))
  return new Map(files.map(({ name, id }) => [name, id]))
}

function toWord(path: string): string {
  return /^[\w./-]+$/.test(path) ? path : shQuote(path)
}
