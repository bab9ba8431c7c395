import { findProgram } from '../base/find-program.ts'
import { removeTree } from './removal.ts'
import { runProcess } from './run-process.ts'
import type { RunningProcess } from './running-process.ts'
import type { CommandEnd, Folders, SandboxLimits, Workspace, WorkspaceCommand } from './sandbox.ts'
import type { SandboxTools } from './tools.ts'
import { endProcesses } from './unsandboxed.ts'
import { emptyWorkspace, type WorkspaceFolder } from './workspace-folder.ts'

type Options = {
  place: WorkspaceFolder
  inside: Folders
  limits: SandboxLimits
  tools: SandboxTools
  start: (place: WorkspaceFolder, command: WorkspaceCommand, writer: number) => RunningProcess
}

const givenUp =
  "The files of the job were removed when the runner's disk was nearly full; nothing more can run in it."

/** A room in a place that has been made for it. One command runs in it at a time. */
export function createWorkspace({ place, inside, limits, tools, start }: Options): Workspace {
  const { folder, pipes, outside, memoryGroup } = place
  const closed = new AbortController()
  let running: Promise<unknown> | undefined
  let isGivenUp = false

  async function giveUpFiles(): Promise<void> {
    isGivenUp = true
    await emptyWorkspace(place, tools)
  }

  return {
    outside,
    inside,

    async run(command): Promise<CommandEnd> {
      if (running || closed.signal.aborted) throw new Error('A room runs one command at a time.')
      if (isGivenUp) return { exitCode: null, reason: 'out-of-disk', detail: givenUp }
      const fault = programFault(command, { inside, outside })
      if (fault) return { exitCode: null, reason: 'not-started', detail: fault }
      const signal = AbortSignal.any([command.signal, closed.signal])
      const life = runProcess(
        {
          ...{ pipe: pipes.output, limits, memoryGroup, disk: folder },
          start: (writer) => start(place, command, writer),
          onDiskFull: giveUpFiles,
          hurry: closed.signal,
        },
        { ...command, signal },
      )
      running = life
      return life.finally(() => {
        running = undefined
      })
    },

    async [Symbol.asyncDispose]() {
      closed.abort()
      await running?.catch(() => {})
      await endProcesses(place, tools)
      pipes[Symbol.dispose]()
      // Before its folder, which says where it is; the cache of the files that are removed goes with it.
      await memoryGroup?.remove()
      await removeTree(folder, tools)
    },
  }
}

/** Why a command's program cannot be found; the system's programs are the same inside and outside. */
function programFault(
  { command: [program], env }: WorkspaceCommand,
  { inside, outside }: { inside: Folders; outside: Folders },
): string | undefined {
  if (program.includes('/')) return undefined
  const path = env.PATH ?? ''
  const folders = path.split(':').map((entry) => {
    const name = (Object.keys(inside) as (keyof Folders)[]).find(
      (key) => entry === inside[key] || entry.startsWith(`${inside[key]}/`),
    )
    return name ? outside[name] + entry.slice(inside[name].length) : entry
  })
  if (findProgram(program, folders.join(':'))) return undefined
  return `The program ${program} is not there; it was looked for in ${path || 'an empty PATH'}.`
}
