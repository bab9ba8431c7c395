import type { Socket } from 'node:net'
import { closeInheritedDescriptors } from '#base/inherited-descriptors.ts'
import { killGroup } from '#base/kill-group.ts'
import { dropStartupGarbage } from '#base/startup-garbage.ts'
import type { PipeName, SpawnReport, SpawnRequest } from '#git/process/helper-processes.ts'
import { type ExitStatus, openPreforkedProcess } from '#git/process/preforked-process.ts'

// The program of the spawn helper, which starts git processes for the main process: see createSpawnHelper.
// When the main process ends, for any reason, it kills them all and exits.

closeInheritedDescriptors()
dropStartupGarbage()

const unknown: ExitStatus = { exitCode: null, signal: null }
const pipes: PipeName[] = ['stdin', 'stdout', 'channel']
const running = new Set<number>()
let variables: Record<string, string> = {}

process.on('message', (request: SpawnRequest) => {
  if ('variables' in request) variables = request.variables
  else start(request.id)
})

// Not on `disconnect`, which Node does not emit while a handle is being sent.
process.stdin.resume().once('close', () => {
  for (const pid of running) killGroup(pid, 'SIGKILL')
  process.exit()
})
// A stop of the service may signal all its processes; this one ends when the main process does.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {})

function start(id: number): void {
  try {
    const preforked = openPreforkedProcess({ variables })
    const { pid, ended, listen } = preforked
    if (pid !== undefined) running.add(pid)
    // Nothing is lost here: a preforked process writes nothing before its order.
    for (const pipe of pipes) report({ id, pid, pipe }, preforked[pipe] as Socket)
    listen((stderr) => report({ id, stderr }))
    ended
      .then(
        (status) => report({ id, ...status }),
        (error: Error) => report({ id, ...unknown, error: error.message }),
      )
      .finally(() => pid !== undefined && running.delete(pid))
  } catch (error) {
    report({ id, ...unknown, error: String(error) })
  }
}

function report(message: SpawnReport, handle?: Socket): void {
  process.send?.(message, handle, {}, () => {})
}
