import { statSync, writeFileSync } from 'node:fs'
import type { Writable } from 'node:stream'
import { type LaunchedProcess, launch, runTool } from './launch.ts'
import { memfdBytes, memoryOf } from './memory/memory.ts'
import type { MemoryGroup } from './memory/memory-group.ts'
import {
  countTasksOfUser,
  descendantsOf,
  findProcess,
  type Process,
  pollUntil,
  processesOfUser,
  processesOfWorkspace,
  signal,
  stillRuns,
  workspaceVariable,
} from './processes.ts'
import { limitArguments } from './resource-limits.ts'
import {
  type Exit,
  exitOf,
  feed,
  folderFault,
  notStarted,
  openInput,
  type RunningProcess,
  type StartOptions,
} from './running-process.ts'
import type { SandboxLimits, WorkspaceCommand } from './sandbox.ts'
import type { SandboxTools } from './tools.ts'
import type { WorkspaceFolder } from './workspace-folder.ts'

export type UnsandboxedSetup = { tools: SandboxTools; limits: SandboxLimits }

/** Starts a command without a sandbox, with limits only, for machines where bubblewrap does not work. */
export function startUnsandboxed(
  { tools, limits }: UnsandboxedSetup,
  directory: WorkspaceFolder,
  command: WorkspaceCommand,
  { writer }: StartOptions,
): RunningProcess {
  const texts = [...Object.entries(command.env).flat(), ...command.command]
  if (texts.some((text) => text.includes('\0')))
    return notStarted('The command or environment of the step contains a NUL byte.')
  if (!isFolder(command.cwd)) {
    return notStarted(folderFault(command.cwd, 'No such file or directory'))
  }
  const otherTasks = directory.user === undefined ? countTasksOfUser(process.getuid?.() ?? 0) : 0
  using input = openInput(command, directory.pipes)
  const child = launch({
    command: [
      // Waits until the runner has moved it into its control group, which its user may not join.
      ...([tools.sh, '-c', 'read -r _ <&3; exec 3<&-; exec "$@"', 'sh'] as const),
      ...[tools.prlimit, ...limitArguments(limits, { otherTasks }), '--'],
      ...[tools.setpriv, '--no-new-privs', '--pdeathsig', 'KILL', '--', ...command.command],
    ],
    // Runs as the user of the workspace from its first instruction, so that no variable affects a process of root.
    env: { ...command.env, [workspaceVariable]: nameOf(directory) },
    user: directory.user,
    cwd: command.cwd,
    stdio: [input.stdio, writer, writer, 'pipe'],
  })
  const fault = startInGroup(child, directory.memoryGroup)
  feed(child, command)
  const first = child.pid === undefined ? undefined : findProcess(child.pid)
  const exited = exitOf(child).then((exit): Exit => (fault ? { exitCode: null, fault } : exit))
  // Orphans are reparented and cannot be found again, so every descendant found once is remembered.
  const seen = new Map<string, Process>()
  function processes(): Process[] {
    if (!first) return []
    if (directory.user !== undefined) return processesOfUser(directory.user)
    if (directory.memoryGroup) return processesOfGroup(directory.memoryGroup)
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
      // System V shared memory is not counted: without a namespace it may belong to other processes.
      return memoryOf({ proc: '/proc', pids, limit, unmappedBytes: memfdBytes('/proc', pids) })
    },
    async endAll() {
      if (!first) return
      await pollUntil(async () => {
        directory.memoryGroup?.kill()
        return (await endProcesses(directory, tools, processes())) === 0
      })
      await exited
    },
  }
}

/** Moves a waiting command into its control group and starts it; the reason if that failed. */
function startInGroup(child: LaunchedProcess, group: MemoryGroup | undefined): string | undefined {
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
    .filter(({ hasEnded }) => !hasEnded)
}

/** Sends SIGKILL to all processes of a workspace that can be found, and returns their number. */
export async function endProcesses(
  directory: Pick<WorkspaceFolder, 'folder' | 'user'>,
  tools: SandboxTools,
  known: readonly Process[] = [],
): Promise<number> {
  const { user, folder } = directory
  const found =
    user === undefined ? [...known, ...processesOfWorkspace(folder)] : processesOfUser(user)
  if (found.length === 0) return 0
  // One kill(2) for all, so that none can fork in between.
  if (user !== undefined) await runTool([tools.sh, '-c', 'kill -9 -1'], { user })
  else for (const { pid } of found) signal(pid, 'SIGKILL')
  return found.length
}

function isFolder(path: string): boolean {
  try {
    return statSync(path).isDirectory()
  } catch {
    return false
  }
}

function nameOf({ folder }: WorkspaceFolder): string {
  return folder.slice(folder.lastIndexOf('/') + 1)
}
