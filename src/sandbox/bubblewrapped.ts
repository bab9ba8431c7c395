import { join } from 'node:path'
import type { Duplex, Readable, Writable } from 'node:stream'
import { argumentFault, bubblewrapArguments, bubblewrapCommand } from './bubblewrap.ts'
import { launch } from './launch.ts'
import { limitArguments } from './limit-arguments.ts'
import { memfdBytes } from './memfds.ts'
import { memoryOf } from './memory.ts'
import {
  descendantsOf,
  findProcess,
  type Process,
  processIds,
  signal,
  stillRuns,
} from './processes.ts'
import {
  type Exit,
  exitOf,
  feed,
  notStarted,
  openInput,
  type RunningProcess,
  untilOver,
} from './running-process.ts'
import type { SandboxLimits, WorkspaceCommand } from './sandbox.ts'
import type { SandboxTools } from './tools.ts'
import { toWatchdog } from './watchdog.ts'
import type { WorkspaceFolder } from './workspace-folder.ts'

export type BubblewrapSetup = {
  tools: SandboxTools
  bwrap: string
  network: 'none' | 'full'
  limits: SandboxLimits
  /** What systemMounts and hidingMounts gave. */
  system: readonly string[]
  readOnlyPaths: readonly string[]
  /** An empty folder that anybody may pass, at which rooms are shown to bubblewrap of another user. */
  stage: string
}

/** How often, among looks at the memory of a room, that is looked for which no process has mapped. */
const looksBetween = 5

/** Starts a command in a room, with bubblewrap around it. */
export function startBubblewrapped(
  setup: BubblewrapSetup,
  { folder, user, pipes, memoryGroup }: WorkspaceFolder,
  command: WorkspaceCommand,
  writer: number,
): RunningProcess {
  const { tools, bwrap, limits, stage } = setup
  const room = user === undefined ? folder : stage
  const hasOwnIpc = user !== undefined
  const args = bubblewrapArguments({
    ...setup,
    hasOwnIpc,
    room,
    env: command.env,
    cwd: command.cwd,
  })
  const fault = argumentFault([...args, ...command.command])
  if (fault) return notStarted(fault)
  using input = openInput(command, pipes)
  const child = launch({
    command: bubblewrapCommand(tools, {
      bwrap,
      move: user === undefined ? undefined : { from: folder, to: stage },
      user,
      procsFile: memoryGroup?.procsFile,
      limits: limitArguments(limits),
      command: command.command,
    }),
    env: {},
    cwd: folder,
    stdio: [input.stdio, writer, writer, 'pipe', 'pipe', 'pipe'],
  })
  feed(child, command)
  // Three pipes beyond the third were asked for, so they are there.
  const [argsPipe, statusPipe, guardPipe] = child.stdio.slice(3) as [Writable, Readable, Duplex]
  const watchdog = toWatchdog(guardPipe)
  argsPipe.on('error', () => {})
  argsPipe.end(args.map((arg) => `${arg}\0`).join(''))
  const status = readStatus(statusPipe)
  const ended = exitOf(child)
  let looks = 0
  let kept = 0
  return {
    exited: ended.then((exit) => status.judge(exit)),

    processes() {
      return status.first ? descendantsOf(status.first.pid) : []
    },

    async memory(limit) {
      const proc = status.first && innerProc(status.first)
      if (!proc) return 0
      const pids = processIds(proc)
      if (looks++ % looksBetween === 0) kept = watchdog.sharedBytes() + memfdBytes(proc, pids)
      return memoryOf({ proc, pids, limit, kept })
    },

    async endAll() {
      // Whether or not it has told by now which its first process is.
      child.kill('SIGKILL')
      await Promise.all([ended, watchdog.end()])
      await status.closed
      const { first } = status
      // With its first process the kernel ends all of a process namespace, and then lets go of the first.
      await untilOver(() => {
        const isOver = first === undefined || !stillRuns(first)
        if (!isOver) signal(first.pid, 'SIGKILL')
        return isOver
      })
    },
  }
}

/** What bubblewrap tells of itself: bwrap(1), `--json-status-fd`. */
function readStatus(pipe: Readable) {
  let text = ''
  const status = {
    /** The first process inside, which is bubblewrap's own. */
    first: undefined as Process | undefined,
    closed: new Promise<void>((resolve) => pipe.on('close', resolve)),
    /** An end without an exit code told is one of bubblewrap before the step had begun, or by force. */
    async judge(exit: Exit): Promise<Exit> {
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

// Before it has changed its root, a process of bubblewrap shows the machine's processes there.
function innerProc(first: Process): string | undefined {
  const proc = join('/proc', `${first.pid}`, 'root', 'proc')
  return findProcess(1, proc)?.startedAt === first.startedAt ? proc : undefined
}
