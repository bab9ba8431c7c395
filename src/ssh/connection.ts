import type { Channel } from './channel.ts'
import { createChannelTable, type SessionChannel } from './channel-table.ts'
import { disconnectReasons, messages } from './messages.ts'
import type { Transport } from './transport.ts'
import { createReader, message, type WireReader } from './wire.ts'

/** A command that a client requests, with its streams. */
export type SshSession<Identity> = Pick<
  Channel,
  'input' | 'output' | 'sentBytes' | 'errors' | 'signal'
> & {
  identity: Identity
  /** The client's address. */
  address: string
  /** The command line; undefined for a shell. */
  command: string | undefined
  /** The environment variable GIT_PROTOCOL, the only one that is accepted: gitprotocol-v2, "SSH and File Transport". */
  gitProtocol: string
  /** Whether the client has a terminal in raw mode, so that lines must end in CR LF. */
  hasTerminal: boolean
  /** Whether the client has sent anything in the last `stallMs`; without data to send, it replies to probes. */
  isAlive: () => boolean
}

type Options<Identity> = {
  transport: Transport
  identity: Identity
  address: string
  maxChannels: number
  /** How long a connection may be idle. */
  idleMs: number
  /** How long a client may take to reply to a probe, and to read the output of a command that has ended. */
  stallMs: number
  /** Called when no command runs any longer, and the client has closed the channel of each. */
  onIdle: () => void
  /** Runs the command and returns its exit code; never rejects. */
  serve: (session: SshSession<Identity>) => Promise<number>
}

const variableMaxBytes = 256
/** How many probes a silent client gets within `stallMs`. */
export const probesPerStall = 4

/** The connection layer: RFC 4254, limited to sessions with `exec` or `shell`, with or without a terminal. */
export function createConnection<Identity>(options: Options<Identity>) {
  const { transport } = options
  const channels = createChannelTable(transport, options.maxChannels)
  let idleTimer: NodeJS.Timeout | undefined
  let probeTimer: NodeJS.Timeout | undefined
  let heardAt = 0
  let serving = 0
  let isAbandoned = false
  watchIdle()

  function receive(payload: Buffer): void {
    heardAt = performance.now()
    const reader = createReader(payload, 1)
    switch (payload[0]) {
      case messages.globalRequest:
        reader.string()
        if (reader.boolean()) transport.send(message(messages.requestFailure))
        return
      case messages.channelOpen:
        channels.open(reader)
        return
      case messages.channelData:
        channels.find(reader).channel.receiveData(reader.string())
        return
      case messages.channelExtendedData: {
        const { channel } = channels.find(reader)
        reader.uint32()
        channel.receiveExtendedData(reader.string())
        return
      }
      case messages.channelWindowAdjust:
        channels.find(reader).channel.receiveWindow(reader.uint32())
        return
      case messages.channelEof:
        channels.find(reader).channel.receiveEnd()
        return
      case messages.channelClose:
        close(channels.find(reader))
        return
      case messages.channelRequest:
        request(channels.find(reader), reader)
        return
      // Ignored after authentication: RFC 4252, section 5.1.
      case messages.userauthRequest:
      // Replies to probes.
      case messages.requestSuccess:
      case messages.requestFailure:
      // Replies to requests that the server never sends.
      case messages.channelSuccess:
      case messages.channelFailure:
        return
      default:
        throw new Error('Unexpected message.')
    }
  }

  function close(session: SessionChannel): void {
    session.isClosed = true
    session.channel.receiveClose()
    removeIfClosed(session)
  }

  function removeIfClosed(session: SessionChannel): void {
    channels.removeIfClosed(session)
    if (session.state === 'served' && !isServing()) options.onIdle()
  }

  function request(session: SessionChannel, reader: WireReader): void {
    const type = reader.text()
    const wantsReply = reader.boolean()
    const isAccepted = accept(session, type, reader)
    if (!wantsReply) return
    if (isAccepted) session.channel.succeed()
    else session.channel.fail()
  }

  function accept(session: SessionChannel, type: string, reader: WireReader): boolean {
    if (type === 'env') return acceptVariable(session, reader)
    if (!['pty-req', 'exec', 'shell'].includes(type) || session.state !== 'open') return false
    // Accepted because clients warn about a refusal; no command needs a terminal.
    if (type === 'pty-req') session.hasTerminal = true
    else start(session, type === 'exec' ? reader.string().toString() : undefined)
    return true
  }

  function start(session: SessionChannel, command: string | undefined): void {
    const { channel, gitProtocol, hasTerminal } = session
    const { input, output, sentBytes, errors, signal } = channel
    session.state = 'serving'
    if (serving === 0) startProbing()
    serving += 1
    clearTimeout(idleTimer)
    const { identity, address } = options
    const streams = { input, output, sentBytes, errors, signal }
    const request = { ...streams, identity, address, command, gitProtocol, hasTerminal, isAlive }
    // The reply to the request is sent first.
    queueMicrotask(async () => {
      const code = await options.serve(request)
      const isFlushed = await channel.exit(code, options.stallMs)
      if (!isFlushed) transport.end(disconnectReasons.byApplication, 'The client stopped reading')
      session.state = 'served'
      serving -= 1
      if (serving === 0) {
        clearInterval(probeTimer)
        watchIdle()
      }
      removeIfClosed(session)
    })
  }

  function isAlive(): boolean {
    return performance.now() - heardAt < options.stallMs
  }

  // Clients reply to a request that they do not know: RFC 4254, section 4.
  function startProbing(): void {
    const everyMs = options.stallMs / probesPerStall
    probeTimer = setInterval(() => {
      if (performance.now() - heardAt < everyMs) return
      transport.send(message(messages.globalRequest, 'keepalive@openssh.com', true))
    }, everyMs)
  }

  /** Whether a command runs, or the client may still be reading the output of an earlier command. */
  function isServing(): boolean {
    return channels.all().some(({ state }) => state !== 'open')
  }

  function watchIdle(): void {
    if (isAbandoned) return
    idleTimer = setTimeout(
      () => transport.end(disconnectReasons.byApplication, 'The connection was idle for too long'),
      options.idleMs,
    )
  }

  return {
    receive,

    /** Lets channels send data that waited for the transport. */
    wake(): void {
      for (const { channel } of channels.all()) channel.wake()
    },

    /** Ends all commands: the client is gone. */
    abandon(): void {
      isAbandoned = true
      clearTimeout(idleTimer)
      clearInterval(probeTimer)
      for (const { channel } of channels.all()) channel.abandon()
    },

    isServing,
  }
}

function acceptVariable(session: SessionChannel, reader: WireReader): boolean {
  const name = reader.text()
  const value = reader.text()
  if (name !== 'GIT_PROTOCOL' || value.length > variableMaxBytes) return false
  session.gitProtocol = value
  return true
}
