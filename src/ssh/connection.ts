import { type Channel, createChannel, firstWindowBytes, packetMaxBytes } from './channel.ts'
import { disconnectReasons, messages } from './messages.ts'
import type { Transport } from './transport.ts'
import { createReader, message } from './wire.ts'

/** What a client asks to be run, and the streams to run it with. */
export type SshSession<Identity> = Pick<Channel, 'input' | 'output' | 'errors' | 'signal'> & {
  identity: Identity
  /** The client's address. */
  address: string
  /** The line that it wants to be run; undefined for one that wants a shell. */
  command: string | undefined
  /** The variable of this name, the one that is accepted: gitprotocol-v2, "SSH and File Transport". */
  gitProtocol: string
  /** Whether the client's terminal is in raw mode, so that a line must end in CR LF. */
  hasTerminal: boolean
}

type Options<Identity> = {
  transport: Transport
  identity: Identity
  address: string
  channelsMost: number
  /** How long a client may have nothing run. */
  idleMs: number
  /** How long it may take to read the rest of what was written when that has ended. */
  flushMs: number
  /** Called when nothing runs any more. */
  onIdle: () => void
  /** Runs what is asked for; its exit code. Never fails. */
  serve: (session: SshSession<Identity>) => Promise<number>
}

type Entry = {
  channel: Channel
  gitProtocol: string
  hasTerminal: boolean
  /** What was asked for runs at most once on a channel. */
  state: 'open' | 'serving' | 'served'
  /** Whether the client has closed it. */
  isClosed: boolean
}

const openFailures = { prohibited: 1, unknownType: 3, shortage: 4 } as const
// Smaller ones would make a message of every few bytes.
const packetLeastBytes = 1024
const variableMaxBytes = 256

/** The connection layer: RFC 4254, of which there are only sessions, and in them only `exec` and `shell`, with or without a terminal. */
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
      // Not answered once a client is let in: RFC 4252, section 5.1.
      case messages.userauthRequest:
      // Answers to what is never asked.
      case messages.requestFailure:
      case messages.channelSuccess:
      case messages.channelFailure:
        return
      default:
        throw new Error('There is no such message here.')
    }
  }

  type Fields = ReturnType<typeof createReader>

  function entryOf(reader: Fields): Entry {
    const entry = entries.get(reader.uint32())
    if (!entry || entry.isClosed) throw new Error('There is no such channel.')
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
      return [openFailures.prohibited, 'Nothing is forwarded here']
    }
    if (type !== 'session') return [openFailures.unknownType, 'There are only sessions here']
    if (entries.size >= options.channelsMost) {
      return [openFailures.shortage, 'Too many channels are open']
    }
    if (packetBytes < packetLeastBytes) {
      return [openFailures.shortage, `Packets must take ${packetLeastBytes} bytes`]
    }
    return undefined
  }

  function freeId(): number {
    let id = 0
    while (entries.has(id)) id += 1
    return id
  }

  // A channel counts, closed or not, as long as what runs on it.
  function receiveClose(reader: Fields): void {
    const id = reader.uint32()
    const entry = entries.get(id)
    if (!entry || entry.isClosed) throw new Error('There is no such channel.')
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
      // Accepted, as clients warn of a refusal; there is nothing here that a terminal would be needed for.
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
    // The reply to the request goes first.
    queueMicrotask(async () => {
      const code = await options.serve(session)
      const isFlushed = await channel.exit(code, options.flushMs)
      if (!isFlushed) transport.end(disconnectReasons.byApplication, 'Nothing moved for too long')
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
      () => transport.end(disconnectReasons.byApplication, 'Nothing happened for too long'),
      options.idleMs,
    )
  }

  return {
    receive,

    /** Has channels send what waited for the transport. */
    wake(): void {
      for (const { channel } of entries.values()) channel.wake()
    },

    /** Ends everything that runs: the client is gone. */
    abandon(): void {
      isAbandoned = true
      clearTimeout(idleTimer)
      for (const { channel } of entries.values()) channel.abandon()
    },

    isServing: () => serving > 0,
  }
}
