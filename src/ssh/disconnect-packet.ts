import { randomBytes } from 'node:crypto'
import { disconnectReasons, messages, softwareName } from './messages.ts'
import { message, writeUint32 } from './wire.ts'

const blockBytes = 8
const minPadding = 4

/** Identification and an unencrypted SSH_MSG_DISCONNECT, for a client that is refused before the key exchange. */
export function toDisconnectPacket(why: string): Buffer {
  const payload = message(messages.disconnect, disconnectReasons.tooManyConnections, why, '')
  return Buffer.concat([Buffer.from(`SSH-2.0-${softwareName}\r\n`), toPacket(payload)])
}

/** An unencrypted packet: RFC 4253, section 6. */
function toPacket(payload: Buffer): Buffer {
  const unpadded = 4 + 1 + payload.length + minPadding
  const padding = minPadding + (-unpadded & (blockBytes - 1))
  return Buffer.concat([
    writeUint32(1 + payload.length + padding),
    Buffer.of(padding),
    payload,
    randomBytes(padding),
  ])
}
