import { Server, Socket } from 'node:net'
import { closeInheritedDescriptors } from '#base/inherited-descriptors.ts'
import { createLog } from '#base/log.ts'
import { dropStartupGarbage } from '#base/startup-garbage.ts'
import { handedOver } from '#git-server/ssh/ssh-process.ts'
import { createSshProgram } from '#git-server/ssh/ssh-program.ts'

// The program of the SSH process. The main process starts it and controls it by messages; when the main process ends,
// for any reason, it exits.

closeInheritedDescriptors()

const program = createSshProgram({
  wire: {
    send: (message) => void process.send?.(message, undefined, {}, () => {}),
    onMessage: (listener) =>
      void process.on('message', (message) => {
        if (message !== handedOver) listener(message)
      }),
  },
  onHandle: (listener) =>
    void process.on('message', (_message, handle) => {
      if (handle instanceof Server || handle instanceof Socket) listener(handle)
    }),
  createLog: ({ logLevel }) => createLog({ level: logLevel, output: process.stderr }),
  complain: (line) => process.stderr.write(`${line}\n`),
  onStarted: dropStartupGarbage,
})

process.once('disconnect', () => {
  program.killAll()
  process.exit()
})
// A stop of the service may signal all its processes; this one ends when the main process says so.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {})
