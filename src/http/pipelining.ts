import type { RequestListener } from 'node:http'
import type { Socket } from 'node:net'

/** Most requests of a connection that may wait for the responses to earlier ones. */
const maxWaiting = 100

/**
 * Handles the pipelined requests of a connection one after another (RFC 9112, section 9.3.2): each when the response
 * to the one before has been sent. Node hands over all that have arrived, and keeps the responses in memory of a
 * client that does not read them; a few kilobytes of requests could fill gigabytes.
 */
export function inSequence(listener: RequestListener): RequestListener {
  const queues = new WeakMap<Socket, (() => void)[]>()

  return (request, response) => {
    const { socket } = request

    function handle(): void {
      response.once('close', next)
      listener(request, response)
    }

    function next(): void {
      // Nobody would get the responses.
      const following = socket.destroyed ? undefined : queues.get(socket)?.shift()
      if (following) following()
      else queues.delete(socket)
    }

    const queue = queues.get(socket)
    if (queue === undefined) {
      queues.set(socket, [])
      handle()
    } else if (queue.length < maxWaiting) {
      queue.push(handle)
    } else {
      socket.destroy()
    }
  }
}
