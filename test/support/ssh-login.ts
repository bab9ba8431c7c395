import { messages } from '#ssh/messages.ts'
import { message, writeString } from '#ssh/wire.ts'
import { connectRawSsh, type RawSsh } from './raw-ssh.ts'

/** What a request to be let in by a key says; `sign` makes the signature as it is on the wire. */
export type Login = {
  username: string
  service: string
  algorithm: string
  blob: Buffer
}

/** A request to be let in by a key: RFC 4252, section 7. Without a signature it is a question. */
export function loginRequest(login: Login, signature?: Buffer): Buffer {
  const { username, service, algorithm, blob } = login
  const isSigned = signature !== undefined
  const fields = [username, service, 'publickey', isSigned, algorithm, blob]
  const request = message(messages.userauthRequest, ...fields)
  return signature ? Buffer.concat([request, writeString(signature)]) : request
}

/** What the key of a login signs in a session. */
export function toBeSigned({ username, service, algorithm, blob }: Login, sessionId: Buffer) {
  const fields = [username, service, 'publickey', true, algorithm, blob]
  return Buffer.concat([writeString(sessionId), message(messages.userauthRequest, ...fields)])
}

const answers = {
  [messages.userauthSuccess]: 'accepted',
  [messages.userauthFailure]: 'refused',
  [messages.userauthPkOk]: 'would be accepted',
  [messages.disconnect]: 'disconnected',
}

/** What the server answers to a request to be let in. */
export async function attempt(client: RawSsh, request: Buffer): Promise<string | undefined> {
  client.send(request)
  const answer = await client.next(...Object.keys(answers).map(Number))
  return Object.entries(answers).find(([type]) => Number(type) === answer?.[0])?.[1]
}

/** A client that has exchanged keys and may ask to be let in. */
export async function connectToLogin(port: number, from?: string): Promise<RawSsh> {
  const client = await connectRawSsh(port, from)
  await client.requestUserauth()
  return client
}

/** Runs a command of a client that was let in; what it printed. */
export async function execute(client: RawSsh, line: string): Promise<string> {
  const channel = await client.openSession()
  client.send(message(messages.channelRequest, channel, 'exec', true, line))
  let printed = ''
  for (;;) {
    const next = await client.next(messages.channelData, messages.channelClose)
    if (next?.[0] !== messages.channelData) return printed
    printed += next.subarray(9)
  }
}

/** A client that was let in as `anonymous`, where that may read. */
export async function connectAsAnonymous(port: number, from?: string): Promise<RawSsh> {
  const client = await connectToLogin(port, from)
  const request = message(messages.userauthRequest, 'anonymous', 'ssh-connection', 'none')
  if ((await attempt(client, request)) !== 'accepted') throw new Error('It was not let in.')
  return client
}
