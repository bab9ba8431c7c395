import { type Channel, createChannel, firstWindowBytes, packetMaxBytes } from './channel.ts'
import { disconnectReasons, messages } from './messages.ts'
import type { Transport } from './transport.ts'
import { createReader, message } from './wire.ts'

/** A command that a client requests, with its streams. */
export type SshSession<Identity> = Pick<Channel, 'input' | 'output' | 'errors' | 'signal'> & {
  identity: Identity
  /** The client's address. */
  address: string
  /** The command line; undefined for a shell. */
  command: string | undefined
  /** The environment variable GIT_PROTOCOL, the only one that is accepted: gitprotocol-v2, "SSH and File Transport". */
  gitProtocol: string
  /** Whether the client has a terminal in raw mode, so that lines must end in CR LF. */
  hasTerminal: boolean
}

type Options<Identity> = {
  transport: Transport
  identity: Identity
  address: string
  maxChannels: number
  /** How long a connection may be idle. */
  idleMs: number
  /** How long a client may take to read the output of a command that has ended. */
  flushMs: number
  /** Called when no command runs any longer. */
  onIdle: () => void
  /** Runs the command and returns its exit code; never rejects. */
  serve: (session: SshSession<Identity>) => Promise<number>
}

type Entry = {
  channel: Channel
  gitProtocol: string
  hasTerminal: boolean
  /** A channel runs at most one command. */
  state: 'open' | 'serving' | 'served'
  /** Whether the client has closed the channel. */
  isClosed: boolean
}

const openFailures = { prohibited: 1, unknownType: 3, shortage: 4 } as const
// Smaller packets would cost a message for every few bytes.
const minPacketBytes = 1024
const variableMaxBytes = 256

/** The connection layer: RFC 4254, limited to sessions with `exec` or `shell`, with or without a terminal. */
export function createConnection<Identity>(options: Options<Identity>) {
  const { transport } = options
  const entries = new Map<number, Entry>()
  let idleTimer: NodeJS.Timeout | undefined
  let serving = 0
  let isAbandoned = false
  watchIdle()

  function receive(payload: Buffer): void {
    const reader = createReader(payload, 1)
    switch (payload[0]) {
      case messages.globalRequest:
        reader.string()
        if (reader.boolean()) transport.send(message(messages.requestFailure))
        return
      case messages.channelOpen:
        open(reader)
        return
      case messages.channelData:
        entryOf(reader).channel.receiveData(reader.string())
        return
      case messages.channelExtendedData: {
        const { channel } = entryOf(reader)
        reader.uint32()
        channel.receiveExtendedData(reader.string())
        return
      }
      case messages.channelWindowAdjust:
        entryOf(reader).channel.receiveWindow(reader.uint32())
        return
      case messages.channelEof:
        entryOf(reader).channel.receiveEnd()
        return
      case messages.channelClose:
        receiveClose(reader)
        return
      case messages.channelRequest:
        request(entryOf(reader), reader)
        return
      // Ignored after authentication: RFC 4252, section 5.1.
      case messages.userauthRequest:
      // Replies to requests that the server never sends.
      case messages.requestFailure:
      case messages.channelSuccess:
      case messages.channelFailure:
        return
      default:
        throw new Error('Unexpected message.')
    }
  }

  type Fields = ReturnType<typeof createReader>

  function entryOf(reader: Fields): Entry {
    const entry = entries.get(reader.uint32())
    if (!entry || entry.isClosed) throw new Error('Unknown channel.')
    return entry
  }

  function open(reader: Fields): void {
    const type = reader.text()
    const remoteId = reader.uint32()
    const remoteWindow = reader.uint32()
    const remotePacketBytes = reader.uint32()
    const refusal = refusalOf(type, remotePacketBytes)
    if (refusal) {
      const [reason, why] = refusal
      transport.send(message(messages.channelOpenFailure, remoteId, reason, why, ''))
      return
    }
    const id = freeId()
    const channel = createChannel({ transport, remoteId, remoteWindow, remotePacketBytes })
    entries.set(id, {
      channel,
      gitProtocol: '',
      hasTerminal: false,
      state: 'open',
      isClosed: false,
    })
    transport.send(
      message(messages.channelOpenConfirmation, remoteId, id, firstWindowBytes, packetMaxBytes),
    )
  }

  function refusalOf(type: string, packetBytes: number): [number, string] | undefined {
    if (/^(direct-|forwarded-|x11)/.test(type)) {
      return [openFailures.prohibited, 'Forwarding is not supported']
    }
    if (type !== 'session') return [openFailures.unknownType, 'Only session channels are supported']
    if (entries.size >= options.maxChannels) {
      return [openFailures.shortage, 'Too many channels are open']
    }
    if (packetBytes < minPacketBytes) {
      return [openFailures.shortage, `Packets must take ${minPacketBytes} bytes`]
    }
    return undefined
  }

  function freeId(): number {
    let id = 0
    while (entries.has(id)) id += 1
    return id
  }

  // A closed channel counts towards the limit until its command has ended.
  function receiveClose(reader: Fields): void {
    const id = reader.uint32()
    const entry = entries.get(id)
    if (!entry || entry.isClosed) throw new Error('Unknown channel.')
    entry.isClosed = true
    entry.channel.receiveClose()
    if (entry.state !== 'serving') entries.delete(id)
  }

  function request(entry: Entry, reader: Fields): void {
    const type = reader.text()
    const wantsReply = reader.boolean()
    const isAccepted = accept(entry, type, reader)
    if (!wantsReply) return
    if (isAccepted) entry.channel.succeed()
    else entry.channel.fail()
  }

  function accept(entry: Entry, type: string, reader: Fields): boolean {
    switch (type) {
      case 'env': {
        const name = reader.text()
        const value = reader.text()
        if (name !== 'GIT_PROTOCOL' || value.length > variableMaxBytes) return false
        entry.gitProtocol = value
        return true
      }
      // Accepted because clients warn about a refusal; no command needs a terminal.
      case 'pty-req':
        if (entry.state !== 'open') return false
        entry.hasTerminal = true
        return true
      case 'exec': {
        const command = reader.string()
        if (entry.state !== 'open') return false
        start(entry, command.toString())
        return true
      }
      case 'shell':
        if (entry.state !== 'open') return false
        start(entry, undefined)
        return true
      default:
        return false
    }
  }

  function start(entry: Entry, command: string | undefined): void {
    const { channel, gitProtocol, hasTerminal } = entry
    const { input, output, errors, signal } = channel
    entry.state = 'serving'
    serving += 1
    clearTimeout(idleTimer)
    const { identity, address } = options
    const streams = { input, output, errors, signal }
    const session = { ...streams, identity, address, command, gitProtocol, hasTerminal }
    // The reply to the request is sent first.
    queueMicrotask(async () => {
      const code = await options.serve(session)
      const isFlushed = await channel.exit(code, options.flushMs)
      if (!isFlushed) transport.end(disconnectReasons.byApplication, 'The client stopped reading')
      entry.state = 'served'
      for (const [id, other] of entries) if (other === entry && entry.isClosed) entries.delete(id)
      serving -= 1
      if (serving > 0) return
      watchIdle()
      options.onIdle()
    })
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
      for (const { channel } of entries.values()) channel.wake()
    },

    /** Ends all commands: the client is gone. */
    abandon(): void {
      isAbandoned = true
      clearTimeout(idleTimer)
      for (const { channel } of entries.values()) channel.abandon()
    },

    isServing: () => serving > 0,
  }
}
