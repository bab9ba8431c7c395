import { randomBytes } from 'node:crypto'
import { disconnectReasons, messages, softwareName } from './messages.ts'
import { message, writeUint32 } from './wire.ts'

const blockBytes = 8
const paddingLeast = 4

/** All that is said to a client that is sent away at once: who speaks, and why, as a packet that needs no keys. */
export function toDisconnectPacket(why: string): Buffer {
  const payload = message(messages.disconnect, disconnectReasons.tooManyConnections, why, '')
  return Buffer.concat([Buffer.from(`SSH-2.0-${softwareName}\r\n`), toPacket(payload)])
}

/** A packet before keys are exchanged: RFC 4253, section 6. */
function toPacket(payload: Buffer): Buffer {
  const unpadded = 4 + 1 + payload.length + paddingLeast
  const padding = paddingLeast + (-unpadded & (blockBytes - 1))
  return Buffer.concat([
    writeUint32(1 + payload.length + padding),
    Buffer.of(padding),
    payload,
    randomBytes(padding),
  ])
}
