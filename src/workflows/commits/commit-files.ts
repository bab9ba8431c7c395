import { isWorkflowName, workflowsFolder } from '#actions/workflow-parser/workflow-folders.ts'
import { formatOf } from '#base/object-id.ts'
import {
  type CommitObject,
  type CommitPerson,
  type CommitSummary,
  parseCommit,
  toTime,
} from '#git/objects/commit-object.ts'
import { type ObjectReader, ObjectTooLargeError } from '#git/objects/object-reader.ts'
import { entriesOfTree, type TreeEntry } from '#git/objects/tree-buffer.ts'

/** A file of a commit: its text, or a predicate that says why it cannot be read, such as "is not UTF-8". */
type FoundFile = { path: string } & ({ text: string } | { fault: string })

export type CommitFiles = {
  /** Undefined when the commit does not exist. */
  commit: CommitSummary | undefined
  /** Lists the workflow files directly in a folder, by name; of the workflows folder unless it is named. */
  listWorkflows: (folder?: string) => Promise<string[]>
  /** Reads a regular file; undefined when there is none. Symbolic links and submodules are never followed. */
  read: (path: string) => Promise<FoundFile | undefined>
}

const workflowFileMaxBytes = 256 * 1024
const treeMaxBytes = 16 * 1024 * 1024
const commitMaxBytes = 16 * 1024 * 1024
const listedFilesLimit = 200
const messageLimit = 16_384
const fileModes = new Set(['100644', '100755'])

/** Opens the files of a commit, reading its trees and blobs without a checkout. */
export async function openCommit(objects: ObjectReader, id: string): Promise<CommitFiles> {
  const trees = new Map<string, TreeEntry[] | undefined>()
  const object = await objects.read(`${id}^{commit}`, commitMaxBytes)
  const commit = object && parseCommit(object.content)
  const root = commit?.tree ?? ''

  async function readTree(treeId: string): Promise<TreeEntry[] | undefined> {
    if (!trees.has(treeId)) {
      const tree = await objects.read(treeId, treeMaxBytes)
      trees.set(
        treeId,
        tree?.type === 'tree'
          ? [...entriesOfTree(tree.content, 'utf8', formatOf(tree.id))]
          : undefined,
      )
    }
    return trees.get(treeId)
  }

  async function entryAt(path: string): Promise<TreeEntry | undefined> {
    let entry: TreeEntry | undefined = { mode: '40000', name: '', id: root }
    for (const name of path.split('/')) {
      const entries: TreeEntry[] | undefined =
        entry?.mode === '40000' ? await readTree(entry.id) : undefined
      entry = entries?.find((one) => one.name === name)
      if (!entry) return undefined
    }
    return entry
  }

  return {
    commit: commit && toSummary(object.id, commit),

    async listWorkflows(folder = workflowsFolder) {
      const found = await entryAt(folder)
      const entries = found?.mode === '40000' ? await readTree(found.id) : undefined
      return (entries ?? [])
        .filter(({ mode, name }) => mode !== '40000' && isWorkflowName(name))
        .slice(0, listedFilesLimit)
        .map(({ name }) => `${folder}/${name}`)
        .sort()
    },

    async read(path) {
      const entry = await entryAt(path)
      if (!entry) return undefined
      if (!fileModes.has(entry.mode)) return { path, fault: faultOf(entry.mode) }
      try {
        const blob = await objects.read(entry.id, workflowFileMaxBytes)
        if (!blob) return { path, fault: 'is damaged in the repository' }
        return { path, text: new TextDecoder('utf-8', { fatal: true }).decode(blob.content) }
      } catch (error) {
        if (error instanceof ObjectTooLargeError) {
          return { path, fault: `is larger than ${workflowFileMaxBytes / 1024} KiB` }
        }
        if (error instanceof TypeError) return { path, fault: 'is not UTF-8' }
        throw error
      }
    },
  }
}

function faultOf(mode: string): string {
  if (mode === '120000') return 'is a symbolic link; only regular files are read'
  if (mode === '160000') return 'is a submodule; only regular files are read'
  return mode === '40000' ? 'is a folder' : `has the mode ${mode}; only regular files are read`
}

function toSummary(id: string, commit: CommitObject): CommitSummary {
  const { tree, message, author, committer } = commit
  return {
    id,
    treeId: tree,
    message: message.slice(0, messageLimit).trimEnd(),
    author: toPerson(author),
    committer: toPerson(committer),
  }
}

function toPerson({ name, email, at }: CommitPerson): CommitSummary['author'] {
  return { name, email, at: toTime(String(at / 1000)) }
}
