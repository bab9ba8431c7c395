import { findProgram } from '#base/find-program.ts'
import type { JobNetwork } from './job-network.ts'
import { runProcess } from './run-process.ts'
import type { RunningProcess, StartOptions } from './running-process.ts'
import type { CommandEnd, Folders, SandboxLimits, Workspace, WorkspaceCommand } from './sandbox.ts'
import { removeTree, type SandboxTools } from './tools.ts'
import { endProcesses } from './unsandboxed.ts'
import { emptyWorkspaceFolder, type WorkspaceFolder } from './workspace-folder.ts'

type Options = {
  directory: WorkspaceFolder
  inside: Folders
  limits: SandboxLimits
  tools: SandboxTools
  /** For commands that may reach hosts; undefined where all commands have the whole network. */
  network: JobNetwork | undefined
  start: (
    directory: WorkspaceFolder,
    command: WorkspaceCommand,
    options: StartOptions,
  ) => RunningProcess
}

const emptiedDetail =
  "The files of the job were removed because the runner's disk was nearly full; no more steps can run."

/** Creates a workspace in its directory. It runs one command at a time. */
export function createWorkspace(options: Options): Workspace {
  const { directory, inside, limits, tools, network, start } = options
  const { folder, pipes, outside, memoryGroup } = directory
  const disposing = new AbortController()
  let running: Promise<unknown> | undefined
  let isEmptied = false

  async function emptyFiles(): Promise<void> {
    isEmptied = true
    await emptyWorkspaceFolder(directory, tools)
  }

  async function execute(command: WorkspaceCommand): Promise<CommandEnd> {
    const { network: access } = command
    const isProxied = access !== undefined && access !== 'none'
    // Its connections end with the command.
    using joined = isProxied ? await network?.begin(access) : undefined
    const signal = AbortSignal.any([command.signal, disposing.signal])
    return await runProcess(
      {
        ...{ pipe: pipes.output, limits, memoryGroup, disk: folder },
        start: (writer) => start(directory, command, { writer, namespaces: joined?.descriptors }),
        onDiskFull: emptyFiles,
        disposing: disposing.signal,
      },
      { ...command, signal },
    )
  }

  return {
    outside,
    inside,

    async run(command): Promise<CommandEnd> {
      if (running || disposing.signal.aborted)
        throw new Error('A workspace runs one command at a time.')
      if (isEmptied) return { exitCode: null, reason: 'out-of-disk', detail: emptiedDetail }
      const fault = programFault(command, { inside, outside })
      if (fault) return { exitCode: null, reason: 'not-started', detail: fault }
      const execution = execute(command)
      running = execution
      return execution.finally(() => {
        running = undefined
      })
    },

    async [Symbol.asyncDispose]() {
      disposing.abort()
      await running?.catch(() => {})
      await endProcesses(directory, tools)
      pipes[Symbol.dispose]()
      network?.[Symbol.dispose]()
      // Before the directory, whose link leads to the group.
      await memoryGroup?.remove()
      await removeTree(folder, tools)
    },
  }
}

/** Why a program cannot be found, or undefined. Programs of the system are the same inside and outside. */
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
  return `The program ${program} was not found in ${path || 'an empty PATH'}.`
}
