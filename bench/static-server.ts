import type { AddressInfo } from 'node:net'
import { createServer } from 'node:net'
import type { Replies } from './static-replies.ts'

// A separate process with prepared responses, which reads only the line and body of a request.

const headEnd = '\r\n\r\n'

process.once('message', (replies: Replies) => serve(replies))
process.on('disconnect', () => process.exit())

function serve({ advertisement, listing, pack }: Replies): void {
  const whole = {
    advertisement: toAnswer(advertisement),
    listing: toAnswer(listing),
    pack: toAnswer(pack),
  }
  const server = createServer({ noDelay: true }, (socket) => {
    let received = ''
    socket.setEncoding('latin1')
    socket.on('error', () => {})
    socket.on('data', (text: string) => {
      received += text
      for (;;) {
        const end = received.indexOf(headEnd) + headEnd.length
        if (end < headEnd.length) return
        const [, size = 0] = /^content-length: *(\d+)/im.exec(received.slice(0, end)) ?? []
        if (received.length < end + Number(size)) return
        const body = received.slice(end, end + Number(size))
        if (received.startsWith('GET')) socket.write(whole.advertisement)
        else socket.write(body.includes('command=ls-refs') ? whole.listing : whole.pack)
        received = received.slice(end + Number(size))
      }
    })
  })
  server.listen(0, '127.0.0.1', () => {
    // It listens on TCP, so it has an address of this form.
    const { port } = server.address() as AddressInfo
    process.send?.(`http://127.0.0.1:${port}/static.git`)
  })
}

function toAnswer({ type, body }: Replies['pack']): Uint8Array {
  const head = `HTTP/1.1 200 OK\r\nContent-Type: ${type}\r\nContent-Length: ${body.length}\r\n\r\n`
  return Buffer.concat([Buffer.from(head), body])
}
