import { statSync, writeFileSync } from 'node:fs'
import type { Writable } from 'node:stream'
import { type Launched, launch, runTool } from './launch.ts'
import { limitArguments } from './limit-arguments.ts'
import { memfdBytes } from './memfds.ts'
import { memoryOf } from './memory.ts'
import type { MemoryGroup } from './memory-group.ts'
import {
  descendantsOf,
  findProcess,
  type Process,
  processesOfUser,
  processesOfWorkspace,
  processIds,
  signal,
  stillRuns,
  workspaceVariable,
} from './processes.ts'
import {
  type Exit,
  exitOf,
  feed,
  folderFault,
  notStarted,
  openInput,
  type RunningProcess,
  untilOver,
} from './running-process.ts'
import type { SandboxLimits, WorkspaceCommand } from './sandbox.ts'
import type { SandboxTools } from './tools.ts'
import type { WorkspaceFolder } from './workspace-folder.ts'

export type UnsandboxedSetup = { tools: SandboxTools; limits: SandboxLimits }

/** Starts a command as a process like any other, with limits: what is left where bubblewrap does not work. */
export function startUnsandboxed(
  { tools, limits }: UnsandboxedSetup,
  place: WorkspaceFolder,
  command: WorkspaceCommand,
  writer: number,
): RunningProcess {
  const texts = [...Object.entries(command.env).flat(), ...command.command]
  if (texts.some((text) => text.includes('\0'))) return notStarted('The step has a NUL byte in it.')
  if (!isFolder(command.cwd)) {
    return notStarted(folderFault(command.cwd, 'No such file or directory'))
  }
  const others = place.user === undefined ? processIds().length : 0
  using input = openInput(command, place.pipes)
  const child = launch({
    command: [
      // It waits until it is in its control group: the user of the room may not join one by itself.
      ...([tools.sh, '-c', 'read -r _ <&3; exec 3<&-; exec "$@"', 'sh'] as const),
      ...[tools.prlimit, ...limitArguments(limits, { others }), '--'],
      ...[tools.setpriv, '--no-new-privs', '--pdeathsig', 'KILL', '--', ...command.command],
    ],
    // From its first instruction on it is the user of the room, so that no variable can turn against root.
    env: { ...command.env, [workspaceVariable]: nameOf(place) },
    user: place.user,
    cwd: command.cwd,
    stdio: [input.stdio, writer, writer, 'pipe'],
  })
  const fault = release(child, place.memoryGroup)
  feed(child, command)
  const first = child.pid === undefined ? undefined : findProcess(child.pid)
  const exited = exitOf(child).then((exit): Exit => (fault ? { exitCode: null, fault } : exit))
  // Descendants whose parents end are nobody's; those that were seen once are not forgotten.
  const seen = new Map<string, Process>()
  function processes(): Process[] {
    if (!first) return []
    if (place.user !== undefined) return processesOfUser(place.user)
    if (place.memoryGroup) return processesOfGroup(place.memoryGroup)
    for (const known of [first, ...seen.values()].filter(stillRuns)) {
      for (const found of descendantsOf(known.pid)) {
        seen.set(`${found.pid} ${found.startedAt}`, found)
      }
    }
    return [first, ...seen.values()].filter(stillRuns)
  }
  return {
    exited,
    processes,
    memory(limit) {
      const pids = processes().map(({ pid }) => pid)
      // There, memory of System V is everybody's.
      return memoryOf({ proc: '/proc', pids, limit, kept: memfdBytes('/proc', pids) })
    },
    async endAll() {
      if (!first) return
      await untilOver(async () => {
        place.memoryGroup?.kill()
        return (await endProcesses(place, tools, processes())) === 0
      })
      await exited
    },
  }
}

/** Moves a command that waits into its control group, and has it begin; why that could not be. */
function release(child: Launched, group: MemoryGroup | undefined): string | undefined {
  const channel = child.stdio?.[3] as Writable | undefined
  channel?.on('error', () => {})
  try {
    if (group && child.pid !== undefined) writeFileSync(group.procsFile, String(child.pid))
    channel?.end('\n')
    return undefined
  } catch (error) {
    child.kill('SIGKILL')
    return `The limit of memory could not be set: ${error instanceof Error ? error.message : error}`
  }
}

function processesOfGroup(group: MemoryGroup): Process[] {
  return group
    .processIds()
    .flatMap((pid) => findProcess(pid) ?? [])
    .filter(({ isGone }) => !isGone)
}

/** Sends SIGKILL to all processes of a room that can be found; how many there were. */
export async function endProcesses(
  place: Pick<WorkspaceFolder, 'folder' | 'user'>,
  tools: SandboxTools,
  known: readonly Process[] = [],
): Promise<number> {
  const { user, folder } = place
  const found =
    user === undefined ? [...known, ...processesOfWorkspace(folder)] : processesOfUser(user)
  if (found.length === 0) return 0
  // At once, so that none can start another while it is looked for.
  if (user !== undefined) await runTool([tools.sh, '-c', 'kill -9 -1'], { user })
  else for (const { pid } of found) signal(pid, 'SIGKILL')
  return found.length
}

function isFolder(path: string): boolean {
  try {
    return statSync(path).isDirectory()
  } catch {
    // Whatever is wrong with it, nothing can be started there.
    return false
  }
}

function nameOf({ folder }: WorkspaceFolder): string {
  return folder.slice(folder.lastIndexOf('/') + 1)
}
