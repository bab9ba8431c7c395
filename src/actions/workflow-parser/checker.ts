import { extname } from 'node:path'
import { createKeyedMutex } from '#base/concurrency/keyed-mutex.ts'
import { createWorkerThread, WorkerThreadError } from '#base/concurrency/worker-thread.ts'
import {
  actionGraphFaults,
  actionInputNotes,
  actionSteps,
  folderOfAction,
  missingFolders,
} from './action-graph.ts'
import { callGraphFaults, missingWorkflowFaults, missingWorkflows } from './call-graph.ts'
import type { CheckRequest, CheckResponse } from './check-worker.ts'
import { checkRunnable } from './runnable.ts'
import { quoted, sortNotes } from './source/fault-list.ts'
import { fileMaxBytes } from './source/source-text.ts'
import type { Action, Fault, Note, SourceFile, Workflow } from './workflow.ts'

/** Parsed files, or their faults; and their notes. */
type Checked = {
  workflows: CheckedWorkflow[]
  /** Workflows that are called, directly or not. */
  called: CheckedWorkflow[]
  actions: { path: string; action: Action | undefined; faults: Fault[]; notes: Note[] }[]
  /** Folders of actions, and paths of workflows, that are used and were not passed in. */
  missingActions: string[]
  missingWorkflows: string[]
}

type CheckedWorkflow = {
  path: string
  workflow: Workflow | undefined
  /** The ids of the jobs that no runner can run. */
  skipped: string[]
  faults: Fault[]
  notes: Note[]
}

export type Checker = ReturnType<typeof createChecker>

const maxWaiting = 100

/** Too many checks are waiting; nothing was checked. */
export class CheckerBusyError extends Error {
  override readonly name = 'CheckerBusyError'
}

/**
 * Creates a checker of workflow files. It parses them one at a time in a separate thread, so that no file can block
 * the server or exhaust its memory: a file that takes more than a second or 100 MB gets a fault.
 */
export function createChecker({ timeoutMs = 1000, idleMs = 5 * 60_000 } = {}) {
  const thread = createCheckThread({ timeoutMs })
  let waiting = 0
  const mutex = createKeyedMutex()
  let isClosed = false
  let idle: NodeJS.Timeout | undefined

  /** Runs checks one at a time; the thread ends some time after the last. */
  async function serialize<T>(work: () => Promise<T>): Promise<T> {
    if (waiting >= maxWaiting) {
      throw new CheckerBusyError('too many workflow files are waiting to be checked')
    }
    waiting += 1
    clearTimeout(idle)
    try {
      return await mutex('thread', work)
    } finally {
      waiting -= 1
      if (waiting === 0 && !isClosed) {
        idle = setTimeout(() => void serialize(() => thread.end()), idleMs).unref()
      }
    }
  }

  async function check(kind: CheckRequest['kind'], file: SourceFile): Promise<CheckResponse> {
    // The parser would report the same; this avoids sending an oversized file to the thread.
    const text = file.text.slice(0, fileMaxBytes + 1)
    try {
      if (isClosed) throw new CheckError('was stopped')
      return await thread.check({ kind, file: { path: file.path, text } })
    } catch (failure) {
      if (!(failure instanceof CheckError)) throw failure
      return { result: undefined, faults: [toFault(file, failure)], notes: [] }
    }
  }

  return {
    /** Throws CheckerBusyError when too many checks are waiting. */
    check: (files: SourceFile[], actions: SourceFile[], called: SourceFile[] = []) =>
      serialize(() => checkFiles(check, { files, actions, called })),

    async [Symbol.asyncDispose](): Promise<void> {
      isClosed = true
      clearTimeout(idle)
      await thread.end()
    },
  }
}

/** Checks files one after the other, each by `checkFile`, and what concerns several of them. */
export async function checkFiles(
  checkFile: (kind: CheckRequest['kind'], file: SourceFile) => Promise<CheckResponse>,
  { files, actions, called }: { files: SourceFile[]; actions: SourceFile[]; called: SourceFile[] },
): Promise<Checked> {
  const checkWorkflow = async (file: SourceFile): Promise<CheckedWorkflow> => {
    const { result, ...found } = await checkFile('workflow', file)
    // The response to a workflow is a workflow.
    return { path: file.path, workflow: result as Workflow | undefined, skipped: [], ...found }
  }
  const checked: Checked = {
    workflows: [],
    called: [],
    actions: [],
    missingActions: [],
    missingWorkflows: [],
  }
  for (const file of files) checked.workflows.push(await checkWorkflow(file))
  for (const file of called) checked.called.push(await checkWorkflow(file))
  for (const file of actions) {
    const { result, ...found } = await checkFile('action', file)
    checked.actions.push({ path: file.path, action: result as Action | undefined, ...found })
  }
  return withGraph(checked)
}

/** Creates faults for steps and jobs whose action or workflow does not exist in the commit. */
export function missingFaults(checked: Checked): Fault[] {
  const { workflows, called, actions, missingActions } = checked
  const parsed = [...workflows, ...called].flatMap(({ workflow }) => workflow ?? [])
  const users = [...parsed, ...actions.flatMap(({ action }) => action ?? [])]
  const ofActions = users
    .flatMap(actionSteps)
    .filter(({ path }) => missingActions.includes(path))
    .map(({ path, position }) => ({
      ...position,
      message: `There is no file action.yml in ${quoted(`./${path}`)}.`,
      instead: 'Add one to the commit, or name the folder that has one.',
    }))
  return [...ofActions, ...missingWorkflowFaults(parsed, checked.missingWorkflows)]
}

/** Adds the faults that concern several files. */
function withGraph(checked: Checked): Checked {
  const roots = checked.workflows.flatMap(({ workflow }) => workflow ?? [])
  const workflows = [...roots, ...checked.called.flatMap(({ workflow }) => workflow ?? [])]
  const byPath = new Map(workflows.map((workflow) => [workflow.path, workflow]))
  const actions = checked.actions.flatMap(({ action }) => action ?? [])
  const given = checked.actions.map(({ path }) => folderOfAction(path))
  const byFolder = new Map(actions.map((action) => [action.path, action]))
  const runnable = checkRunnable(roots, byPath, byFolder)
  const found = [
    ...actionGraphFaults(workflows, actions),
    ...callGraphFaults(roots, byPath),
    ...runnable.faults,
  ]
  const notes = [...runnable.notes, ...actionInputNotes([...workflows, ...actions], actions)]
  const withFound = <T extends { path: string; faults: Fault[]; notes: Note[] }>(one: T): T => ({
    ...one,
    faults: sortNotes([...one.faults, ...found.filter(({ file }) => file === one.path)]),
    notes: sortNotes([...one.notes, ...notes.filter(({ file }) => file === one.path)]),
  })
  const paths = [...checked.workflows, ...checked.called].map(({ path }) => path)
  return {
    workflows: checked.workflows.map(withFound).map((one) => ({
      ...one,
      skipped: one.workflow ? runnable.skippedIn(one.workflow) : [],
    })),
    called: checked.called.map(withFound),
    actions: checked.actions.map(withFound),
    missingActions: missingFolders([...workflows, ...actions], given),
    missingWorkflows: missingWorkflows(workflows, paths),
  }
}

function toFault({ path }: SourceFile, { message }: CheckError): Fault {
  const instead = 'Make the file simpler, or split it into several.'
  return { file: path, line: 1, column: 1, message: `The check of this file ${message}.`, instead }
}

const program = new URL(`./check-worker${extname(import.meta.url)}`, import.meta.url)
const limits = { maxOldGenerationSizeMb: 100, maxYoungGenerationSizeMb: 16, stackSizeMb: 4 }

/** Creates a thread that parses files. */
function createCheckThread({ timeoutMs }: { timeoutMs: number }) {
  const thread = createWorkerThread({ program, timeoutMs, limits })
  return {
    end: thread.end,

    /** Throws CheckError when the thread fails or exceeds its time or memory. */
    async check(request: CheckRequest): Promise<CheckResponse> {
      try {
        // Both ends belong to this program.
        return (await thread.request(request)) as CheckResponse
      } catch (error) {
        throw error instanceof WorkerThreadError ? new CheckError(error.message) : error
      }
    },
  }
}

/** Why a check failed; the message continues "The check of this file". */
class CheckError extends Error {
  override readonly name = 'CheckError'
}
