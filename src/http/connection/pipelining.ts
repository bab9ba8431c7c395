import type { RequestListener } from 'node:http'
import type { Socket } from 'node:net'

/** The maximum number of requests of a connection that wait for earlier responses. */
const maxWaiting = 100

/** The waiting requests of a connection, and the function that starts the next. */
type Sequence = { isBusy: boolean; queue: (() => void)[]; next: () => void }

// On the socket, since entries of a WeakMap slow down every garbage collection.
const sequence = Symbol('sequence')

type Connection = Socket & { [sequence]?: Sequence }

/**
 * Handles the pipelined requests of a connection one after another (RFC 9112, section 9.3.2): each when the previous
 * response has been sent. Node itself starts all of them, and buffers the responses for a client that does not read
 * them; a few kilobytes of requests could fill gigabytes.
 */
export function inSequence(listener: RequestListener): RequestListener {
  return (request, response) => {
    const socket: Connection = request.socket
    socket[sequence] ??= createSequence(socket)
    const state = socket[sequence]
    if (!state.isBusy) {
      state.isBusy = true
      response.on('close', state.next)
      listener(request, response)
    } else if (state.queue.length < maxWaiting) {
      state.queue.push(() => {
        response.on('close', state.next)
        listener(request, response)
      })
    } else {
      socket.destroy()
    }
  }
}

function createSequence(socket: Socket): Sequence {
  const state: Sequence = {
    isBusy: false,
    queue: [],
    next() {
      // The responses could not be delivered.
      const following = socket.destroyed ? undefined : state.queue.shift()
      state.isBusy = following !== undefined
      following?.()
    },
  }
  return state
}
