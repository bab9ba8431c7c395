import { parentPort } from 'node:worker_threads'

/** A message of a thread: a response, and the CPU time of the thread so far. */
export type WorkerMessage = { response: unknown; cpu: NodeJS.CpuUsage }

/** Responds to the requests of `createWorkerThread`, in its thread. */
export function respondToRequests<Request>(respond: (request: Request) => unknown): void {
  const send = (response: unknown) => {
    parentPort?.postMessage({ response, cpu: process.threadCpuUsage() } satisfies WorkerMessage)
  }
  parentPort?.on('message', (request: Request) => send(respond(request)))
  // Signals that the thread is loaded, so loading does not count as time for a request.
  send(undefined)
}
