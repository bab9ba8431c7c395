import { join } from 'node:path'
import type { Duplex, Readable, Writable } from 'node:stream'
import { argumentFault, bubblewrapArguments, bubblewrapCommand, toWatchdog } from './bubblewrap.ts'
import { launch } from './launch.ts'
import { memfdBytes, memoryOf } from './memory/memory.ts'
import {
  descendantsOf,
  findProcess,
  type Process,
  pollUntil,
  processIds,
  signal,
  stillRuns,
} from './processes.ts'
import { limitArguments } from './resource-limits.ts'
import {
  type Exit,
  exitOf,
  feed,
  notStarted,
  openInput,
  type RunningProcess,
  type StartOptions,
} from './running-process.ts'
import type { SandboxLimits, WorkspaceCommand } from './sandbox.ts'
import type { SandboxTools } from './tools.ts'
import type { WorkspaceFolder } from './workspace-folder.ts'

export type BubblewrapSetup = {
  tools: SandboxTools
  bwrap: string
  network: 'none' | 'full'
  limits: SandboxLimits
  /** Arguments from `systemMounts` and `hidingMounts`, for a network. */
  systemFor: (network: 'none' | 'full') => readonly string[]
  readOnlyPaths: readonly string[]
  node: string | undefined
  /** A directory that every user may search; workspaces are mounted there when bubblewrap runs as another user. */
  mountPoint: string
}

/** Unmapped memory is measured once in this many samples, because that takes longer. */
const samplesPerFullSample = 5

/** Starts a command in bubblewrap. */
export function startBubblewrapped(
  setup: BubblewrapSetup,
  { folder, user, pipes, memoryGroup }: WorkspaceFolder,
  command: WorkspaceCommand,
  { writer, namespaces }: StartOptions,
): RunningProcess {
  const { tools, bwrap, limits, mountPoint } = setup
  const own = command.network === undefined ? setup.network : 'none'
  const directory = user === undefined ? folder : mountPoint
  const hasOwnIpc = user !== undefined
  const args = bubblewrapArguments({
    readOnlyPaths: setup.readOnlyPaths,
    node: setup.node,
    network: namespaces ? 'joined' : own,
    system: setup.systemFor(own),
    hasOwnIpc,
    directory,
    env: command.env,
    cwd: command.cwd,
  })
  const fault = argumentFault([...args, ...command.command])
  if (fault) return notStarted(fault)
  using input = openInput(command, pipes)
  const joined = Object.values(namespaces ?? {}).filter((one) => one !== undefined)
  const child = launch({
    command: bubblewrapCommand(tools, {
      bwrap,
      move: user === undefined ? undefined : { from: folder, to: mountPoint },
      user,
      namespaces: namespaces && { net: 6, user: namespaces.user && 7 },
      procsFile: memoryGroup?.procsFile,
      limits: limitArguments(limits),
      command: command.command,
    }),
    env: {},
    cwd: folder,
    stdio: [input.stdio, writer, writer, 'pipe', 'pipe', 'pipe', ...joined],
  })
  feed(child, command)
  // Node creates the three pipes that `stdio` requests.
  const [argsPipe, statusPipe, watchdogPipe] = child.stdio.slice(3) as [Writable, Readable, Duplex]
  const watchdog = toWatchdog(watchdogPipe)
  argsPipe.on('error', () => {})
  argsPipe.end(args.map((arg) => `${arg}\0`).join(''))
  const status = readStatus(statusPipe)
  const ended = exitOf(child)
  let samples = 0
  let unmappedBytes = 0
  return {
    exited: ended.then((exit) => status.toStepExit(exit)),

    processes() {
      return status.first ? descendantsOf(status.first.pid) : []
    },

    async memory(limit) {
      const proc = status.first && innerProc(status.first)
      if (!proc) return 0
      const pids = processIds(proc)
      if (samples++ % samplesPerFullSample === 0)
        unmappedBytes = watchdog.sharedBytes() + memfdBytes(proc, pids)
      return memoryOf({ proc, pids, limit, unmappedBytes })
    },

    async endAll() {
      child.kill('SIGKILL')
      await Promise.all([ended, watchdog.end()])
      await status.closed
      const { first } = status
      // The kernel kills a whole process namespace with its first process, and reaps that one last.
      await pollUntil(() => {
        const hasEnded = first === undefined || !stillRuns(first)
        if (!hasEnded) signal(first.pid, 'SIGKILL')
        return hasEnded
      })
    },
  }
}

/** Parses bubblewrap's status: bwrap(1), `--json-status-fd`. */
function readStatus(pipe: Readable) {
  let text = ''
  const status = {
    /** The first process inside, which belongs to bubblewrap. */
    first: undefined as Process | undefined,
    closed: new Promise<void>((resolve) => pipe.on('close', resolve)),
    /** Without an exit code in the status, bubblewrap failed before the step began, or was killed. */
    async toStepExit(exit: Exit): Promise<Exit> {
      await status.closed
      const isStep = exit.exitCode === null || exit.exitCode > 128 || text.includes('"exit-code"')
      return isStep ? exit : { exitCode: null, fault: '' }
    },
  }
  pipe.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk
    const [, pid] = /"child-pid": (\d+)/.exec(text) ?? []
    if (pid && !status.first) status.first = findProcess(Number(pid))
  })
  pipe.on('error', () => {})
  return status
}

// Until bubblewrap has changed its root, this is the /proc of the machine.
function innerProc(first: Process): string | undefined {
  const proc = join('/proc', `${first.pid}`, 'root', 'proc')
  return findProcess(1, proc)?.startedAt === first.startedAt ? proc : undefined
}
