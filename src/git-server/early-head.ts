import { Writable } from 'node:stream'
import { firstPacket, packet } from '../git/pkt-line.ts'

// What an answer begins with that is a pack alone: https://git-scm.com/docs/protocol-v2, "output of fetch".
const head = packet('packfile\n')
const messageMaxBytes = 65_520
const noPack = 'upload-pack: the pack could not be begun'

/**
 * Says the head of an answer that git is about to begin with it, so that a client need not wait for git to start.
 * All that git says is to be written to `rest`, which passes on what follows. Where git begins otherwise, the client
 * is told what it says, or that it has ended, as upload-pack tells of a pack that fails: by the band of errors.
 */
export function sayHead(output: Writable) {
  let begun = Buffer.alloc(0)
  let isSaid = false
  output.write(head)
  const rest = new Writable({
    highWaterMark: output.writableHighWaterMark,
    write(bytes: Buffer, _encoding, done) {
      if (isSaid) {
        output.write(bytes, done)
        return
      }
      if (begun.length < messageMaxBytes) begun = Buffer.concat([begun, bytes])
      isSaid = begun.subarray(0, head.length).equals(head)
      if (isSaid && begun.length > head.length) output.write(begun.subarray(head.length), done)
      else done()
    },
    final(done) {
      if (!isSaid) output.write(packet(`\x03${messageIn(begun)}`))
      output.end(done)
    },
  })
  return {
    rest,
    /** Whether git has said it, too. */
    isConfirmed: () => isSaid,
  }
}

function messageIn(begun: Buffer): string {
  const found = firstPacket(begun)
  if (typeof found !== 'object' || found.packet.kind !== 'data') return noPack
  const [, message = noPack] = /^ERR ([^\n]+)/.exec(found.packet.payload.toString()) ?? []
  return message
}
