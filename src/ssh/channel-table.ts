import { type Channel, createChannel, dataMaxBytes, firstWindowBytes } from './channel.ts'
import { messages } from './messages.ts'
import type { Transport } from './transport.ts'
import { message, type WireReader } from './wire.ts'

/** A session channel with the state of its requests. */
export type SessionChannel = {
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

/** The channels of a connection by their numbers: RFC 4254, section 5. */
export function createChannelTable(transport: Transport, maxChannels: number) {
  const channels = new Map<number, SessionChannel>()

  function refusalOf(type: string, packetBytes: number): [number, string] | undefined {
    if (/^(direct-|forwarded-|x11)/.test(type)) {
      return [openFailures.prohibited, 'Forwarding is not supported']
    }
    if (type !== 'session') return [openFailures.unknownType, 'Only session channels are supported']
    if (channels.size >= maxChannels) return [openFailures.shortage, 'Too many channels are open']
    if (packetBytes < minPacketBytes) {
      return [openFailures.shortage, `Packets must take ${minPacketBytes} bytes`]
    }
    return undefined
  }

  function freeId(): number {
    let id = 0
    while (channels.has(id)) id += 1
    return id
  }

  return {
    all: () => channels.values(),

    /** The channel that a message names. Throws when there is none, or the client has closed it. */
    find(reader: WireReader): SessionChannel {
      const session = channels.get(reader.uint32())
      if (!session || session.isClosed) throw new Error('Unknown channel.')
      return session
    },

    open(reader: WireReader): void {
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
      channels.set(id, {
        channel,
        gitProtocol: '',
        hasTerminal: false,
        state: 'open',
        isClosed: false,
      })
      transport.send(
        message(messages.channelOpenConfirmation, remoteId, id, firstWindowBytes, dataMaxBytes),
      )
    },

    /** Removes a closed channel. It counts towards the limit until its command has ended. */
    removeIfClosed(session: SessionChannel): void {
      if (!session.isClosed || session.state === 'serving') return
      for (const [id, other] of channels) if (other === session) channels.delete(id)
    },
  }
}
