import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, createServer, Server, Socket } from 'node:net'
import { test } from 'node:test'
import { openSshPort } from './ssh-port.ts'

const local = { host: '127.0.0.1', port: 0, maxClients: 2 }

test('a port is given away before its clients, of which nothing is read', async () => {
  using open = await openSshPort(local)
  const client = connectTo(open)
  client.write('SSH-2.0-test\r\n')
  await open.firstClient
  const given: (Server | Socket)[] = []
  await open.handOver(async (handle) => {
    if (handle instanceof Server) assert.equal(handle.listening, true)
    given.push(handle)
  })
  const [server, socket, ...others] = given
  assert.ok(server instanceof Server && socket instanceof Socket)
  assert.deepEqual(others, [])
  assert.equal(server.listening, false)
  assert.equal(socket.bytesRead, 0)
  const [read] = await once(socket.resume(), 'data')
  assert.equal(String(read), 'SSH-2.0-test\r\n')
  client.destroy()
  socket.destroy()
})

test('clients beyond the limit are disconnected', async () => {
  using open = await openSshPort(local)
  const sockets = [connectTo(open), connectTo(open), connectTo(open)]
  await Promise.race(sockets.map((socket) => once(socket, 'close')))
  assert.equal(sockets.filter(({ destroyed }) => destroyed).length, 1)
  for (const socket of sockets) socket.destroy()
})

test('a port that is closed disconnects its clients, and is waited for no longer', async () => {
  const open = await openSshPort(local)
  const socket = connectTo(open)
  await open.firstClient
  open[Symbol.dispose]()
  await once(socket, 'close')
  const unused = await openSshPort(local)
  unused[Symbol.dispose]()
  await unused.firstClient
})

test('a port that is in use is an error that names the settings', async () => {
  await using other = createServer().listen(0, '127.0.0.1')
  await once(other, 'listening')
  const { port } = other.address() as { port: number }
  await assert.rejects(openSshPort({ ...local, port }), /SVC_SSH_PORT: .* the port is in use/)
})

function connectTo({ host, port }: { host: string; port: number }): Socket {
  return connect(port, host).on('error', () => {})
}
