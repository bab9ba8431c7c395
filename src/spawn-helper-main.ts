import type { Socket } from 'node:net'
import { closeInheritedDescriptors } from './base/inherited-descriptors.ts'
import { type ExitStatus, openPreforkedProcess } from './git/process/preforked-process.ts'
import { killGroup } from './git/process/process-group.ts'
import type { PipeName, SpawnReport, SpawnRequest } from './git/process/spawn-helper.ts'

// The program of the process that starts gits for the main process, which tells it how many: see createStarter.
// It ends, with all of them, when the main process is gone, however that came.

closeInheritedDescriptors()

const unknown: ExitStatus = { exitCode: null, signal: null }
const pipes: PipeName[] = ['stdin', 'stdout', 'channel']
const running = new Set<number>()
let variables: Record<string, string> = {}

process.on('message', (told: SpawnRequest) => {
  if ('variables' in told) variables = told.variables
  else start(told.id)
})

// By its input, not by `disconnect`, of which Node does not tell while a handle is on its way.
process.stdin.resume().once('close', () => {
  for (const pid of running) killGroup(pid, 'SIGKILL')
  process.exit()
})
// Whoever stops the service may signal all of its processes; the main process says when this one ends.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {})

function start(id: number): void {
  try {
    const preforked = openPreforkedProcess({ variables })
    const { pid, ended, listen } = preforked
    if (pid !== undefined) running.add(pid)
    // Nothing is read from them here: a seat says nothing before it is told what to become.
    for (const pipe of pipes) tell({ id, pid, pipe }, preforked[pipe] as Socket)
    listen((said) => tell({ id, said }))
    ended
      .then(
        (status) => tell({ id, ...status }),
        (error: Error) => tell({ id, ...unknown, fault: error.message }),
      )
      .finally(() => pid !== undefined && running.delete(pid))
  } catch (error) {
    tell({ id, ...unknown, fault: String(error) })
  }
}

function tell(message: SpawnReport, handle?: Socket): void {
  process.send?.(message, handle, {}, () => {})
}
