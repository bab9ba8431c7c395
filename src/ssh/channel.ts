import { Writable } from 'node:stream'
import { lingerMaxBytes, lingerMs } from '#base/linger.ts'
import { within } from '#base/timeouts.ts'
import { messages } from './messages.ts'
import { createReceiveBuffer } from './receive-buffer.ts'
import type { Transport } from './transport.ts'
import { message, writeUint32 } from './wire.ts'

export type Channel = ReturnType<typeof createChannel>

/** The initial window: bounds the memory of a channel that is never read. */
export const firstWindowBytes = 64 * 1024
// The window of a channel that is read.
const windowBytes = 2 * 1024 * 1024
/** The largest piece of data in a message, either way. */
export const dataMaxBytes = 32 * 1024
const maxWindow = 2 ** 32 - 1
const standardError = 1

type Options = {
  transport: Transport
  /** The client's number for the channel. */
  remoteId: number
  remoteWindow: number
  /** The client's maximum packet size. */
  remotePacketBytes: number
}

/** A session channel: RFC 4254, section 5. The methods `receive…` throw on a protocol violation. */
export function createChannel({ transport, remoteId, ...remote }: Options) {
  const { remotePacketBytes } = remote
  let { remoteWindow } = remote
  let localWindow = firstWindowBytes
  let unread = 0
  let isClosed = false
  let changed = Promise.withResolvers<void>()
  const gone = new AbortController()
  const buffer = createReceiveBuffer(grant)

  function grant(bytes: number): void {
    unread -= bytes
    const more = windowBytes - localWindow - unread
    if (more < windowBytes / 2 || isClosed) return
    transport.send(message(messages.channelWindowAdjust, remoteId, more))
    localWindow += more
  }

  function consume(bytes: number): void {
    if (bytes > localWindow) throw new Error('The client sent more than its window.')
    localWindow -= bytes
    unread += bytes
  }

  /** Lets pending writes continue. */
  function wake(): void {
    changed.resolve()
    changed = Promise.withResolvers()
  }

  async function sendData(bytes: Buffer, isError: boolean): Promise<void> {
    let rest = bytes
    while (rest.length > 0) {
      if (isClosed) throw new Error('The channel is closed.')
      if (remoteWindow === 0 || transport.isBusy()) {
        await changed.promise
        continue
      }
      const length = Math.min(rest.length, remoteWindow, remotePacketBytes, dataMaxBytes)
      remoteWindow -= length
      const heading = isError
        ? message(messages.channelExtendedData, remoteId, standardError)
        : message(messages.channelData, remoteId)
      transport.send(heading, writeUint32(length), rest.subarray(0, length))
      rest = rest.subarray(length)
    }
  }

  let sent = 0
  const output = createOutput(false)

  function createOutput(isError: boolean): Writable {
    const output = new Writable({
      write: (bytes: Buffer, _encoding, done) => {
        sendData(bytes, isError).then(() => {
          if (!isError) sent += bytes.length
          done()
        }, done)
      },
    })
    // Writers learn from the signal that the client is gone.
    return output.on('error', () => {})
  }

  /** Ends the channel without a message to the client. */
  function abandon(): void {
    isClosed = true
    buffer.end('broken')
    gone.abort(new Error('The client closed the channel.'))
    wake()
  }

  return {
    input: buffer,
    output,
    /** The bytes of output, with those that are still to be sent. */
    sentBytes: () => sent + output.writableLength,
    errors: createOutput(true),
    /** Aborted when the client has closed the channel or is gone. */
    signal: gone.signal,
    wake,
    abandon,

    receiveData(bytes: Buffer): void {
      consume(bytes.length)
      if (bytes.length > 0) buffer.push(bytes)
    },

    /** Discards data that is not standard input. */
    receiveExtendedData(bytes: Buffer): void {
      consume(bytes.length)
      grant(bytes.length)
    },

    receiveWindow(bytes: number): void {
      remoteWindow += bytes
      if (remoteWindow > maxWindow) throw new Error('The window is too large.')
      wake()
    },

    receiveEnd: () => buffer.end('ended'),

    receiveClose(): void {
      if (!isClosed) transport.send(message(messages.channelClose, remoteId))
      abandon()
    },

    succeed: () => transport.send(message(messages.channelSuccess, remoteId)),
    fail: () => transport.send(message(messages.channelFailure, remoteId)),

    /**
     * Sends pending output and the exit code, and closes the channel; false when the output takes too long. After a
     * failure, a client that still sends may first end its input, within limits: OpenSSH closes its own input with the
     * channel, which kills a git that still writes to it before it shows the error.
     */
    async exit(code: number, timeoutMs: number): Promise<boolean> {
      const sent = Promise.all([flushed(this.errors), flushed(this.output)])
      const isSent = await within(timeoutMs, sent).then(
        () => true,
        () => false,
      )
      if (!isSent) return false
      if (isClosed) return true
      transport.send(message(messages.channelEof, remoteId))
      if (code !== 0) await within(lingerMs, buffer.discard(lingerMaxBytes)).catch(() => {})
      if (isClosed) return true
      isClosed = true
      transport.send(message(messages.channelRequest, remoteId, 'exit-status', false, code))
      transport.send(message(messages.channelClose, remoteId))
      return true
    },
  }
}

function flushed(output: Writable): Promise<void> {
  return new Promise((resolve) => {
    if (output.destroyed) return resolve()
    output.once('close', resolve)
    output.end(resolve)
  })
}
