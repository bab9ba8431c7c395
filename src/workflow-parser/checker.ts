import { createKeyedMutex } from '../concurrency/keyed-mutex.ts'
import { actionGraphFaults, actionSteps, folderOfAction, missingFolders } from './action-graph.ts'
import { CheckError, createCheckThread } from './check-thread.ts'
import type { CheckRequest, CheckResponse } from './check-worker.ts'
import { quoted } from './fault-list.ts'
import { fileMaxBytes } from './source-text.ts'
import type { Action, Fault, SourceFile, Workflow } from './workflow.ts'

/** Parsed files, or their faults. */
export type Checked = {
  workflows: { path: string; workflow: Workflow | undefined; faults: Fault[] }[]
  actions: { path: string; action: Action | undefined; faults: Fault[] }[]
  /** Folders of actions that are used and were not passed in. */
  missingActions: string[]
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
      return { result: undefined, faults: [toFault(file, failure)] }
    }
  }

  return {
    /** Throws CheckerBusyError when too many checks are waiting. */
    check: (files: SourceFile[], actions: SourceFile[]): Promise<Checked> =>
      serialize(async () => {
        const checked: Checked = { workflows: [], actions: [], missingActions: [] }
        for (const file of files) {
          const { result, faults } = await check('workflow', file)
          // The thread responds to a workflow with a workflow.
          const workflow = result as Workflow | undefined
          checked.workflows.push({ path: file.path, workflow, faults })
        }
        for (const file of actions) {
          const { result, faults } = await check('action', file)
          const action = result as Action | undefined
          checked.actions.push({ path: file.path, action, faults })
        }
        return withGraph(checked)
      }),

    async [Symbol.asyncDispose](): Promise<void> {
      isClosed = true
      clearTimeout(idle)
      await thread.end()
    },
  }
}

/** Creates faults for steps whose action does not exist in the commit. */
export function missingActionFaults({ workflows, actions, missingActions }: Checked): Fault[] {
  const users = [
    ...workflows.map(({ workflow }) => workflow),
    ...actions.map(({ action }) => action),
  ]
  return users
    .flatMap((user) => (user ? actionSteps(user) : []))
    .filter(({ path }) => missingActions.includes(path))
    .map(({ path, position }) => ({
      ...position,
      message: `There is no file action.yml in ${quoted(`./${path}`)}.`,
      instead: 'Add one to the commit, or name the folder that has one.',
    }))
}

/** Adds the faults that concern several files. */
function withGraph(checked: Checked): Checked {
  const workflows = checked.workflows.flatMap(({ workflow }) => workflow ?? [])
  const actions = checked.actions.flatMap(({ action }) => action ?? [])
  const given = checked.actions.map(({ path }) => folderOfAction(path))
  const found = actionGraphFaults(workflows, actions)
  const of = (path: string) => found.filter(({ file }) => file === path)
  return {
    workflows: checked.workflows.map((one) => ({
      ...one,
      faults: [...one.faults, ...of(one.path)],
    })),
    actions: checked.actions.map((one) => ({ ...one, faults: [...one.faults, ...of(one.path)] })),
    missingActions: missingFolders([...workflows, ...actions], given),
  }
}

function toFault({ path }: SourceFile, { message }: CheckError): Fault {
  const instead = 'Make the file simpler, or split it into several.'
  return { file: path, line: 1, column: 1, message: `The check of this file ${message}.`, instead }
}
