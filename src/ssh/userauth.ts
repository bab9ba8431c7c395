import { redactTokens } from '../base/redact-tokens.ts'
import { disconnectReasons, messages } from './messages.ts'
import { fingerprintOf } from './public-key.ts'
import { fitsAlgorithm, verifySignature } from './signature.ts'
import type { Transport } from './transport.ts'
import { createReader, message, writeString } from './wire.ts'

/** Whoever asks to be let in: a user name, and a key whose private half the client has been seen to hold. */
export type AuthRequest = {
  username: string
  /** The public key in wire form; undefined for a client that names none. */
  key: Buffer | undefined
}

export type AuthResult<Identity> = {
  /** Undefined for a claim that is refused. */
  identity: Identity | undefined
  /** Shown to the person whose claim is refused. */
  notice?: string
}

type Options<Identity> = {
  transport: Transport
  /** Failed attempts after which a client is sent away. */
  tries: number
  authenticate: (authRequest: AuthRequest) => Promise<AuthResult<Identity>>
  onAccepted: (identity: Identity) => void
  /** Called with what `decide` failed with. */
  onFault: (error: unknown) => void
}

const queueLength = 10
// Keys asked about that would be accepted do not count as tries, but nobody has this many.
const requestsMost = 50
const userMaxLength = 100

/**
 * Authentication with public keys: RFC 4252, with RFC 8332. Identity comes of a request whose signature
 * is right, in that request alone; that a key was asked about before, or accepted, means nothing.
 */
export function createUserauth<Identity>(options: Options<Identity>) {
  const { transport, tries, authenticate, onAccepted, onFault } = options
  const queue: Buffer[] = []
  const shown = new Set<string>()
  let isServiceAccepted = false
  let isBusy = false
  let isDone = false
  let failures = 0
  let requests = 0
  let user: string | undefined
  const refused = new Set<string>()

  function receive(payload: Buffer): void {
    switch (payload[0]) {
      case messages.serviceRequest:
        acceptService(createReader(payload, 1).text())
        return
      case messages.userauthRequest:
        if (!isServiceAccepted || queue.length >= queueLength) throw new Error('Not expected here.')
        queue.push(payload)
        void work()
        return
      default:
        throw new Error('Not before authentication.')
    }
  }

  function acceptService(name: string): void {
    if (name !== 'ssh-userauth') {
      transport.end(disconnectReasons.serviceNotAvailable, 'There is no such service')
      return
    }
    isServiceAccepted = true
    transport.send(message(messages.serviceAccept, name))
  }

  // One after another, though a client may send several at once.
  async function work(): Promise<void> {
    if (isBusy) return
    isBusy = true
    try {
      for (let next = queue.shift(); next && !isDone; next = queue.shift()) await answer(next)
    } catch (error) {
      if (error instanceof RangeError) {
        transport.end(
          disconnectReasons.protocolError,
          'The request for authentication is malformed',
        )
      } else {
        transport.end(disconnectReasons.byApplication, 'The server cannot tell who you are now')
        onFault(error)
      }
    }
    isBusy = false
  }

  async function answer(payload: Buffer): Promise<void> {
    requests += 1
    const request = readRequest(payload)
    const isNone = request.method === 'none'
    user = redactTokens(request.username).slice(0, userMaxLength)
    const authRequest = toAuthRequest(request, payload)
    const authResult: AuthResult<Identity> = authRequest
      ? await authenticate(authRequest)
      : { identity: undefined }
    if (authResult.identity === undefined) {
      if (authResult.notice !== undefined) show(authResult.notice)
      // Clients begin with "none" to learn what there is.
      if (!isNone) failures += 1
      if (request.key.length > 0) refused.add(fingerprintOf(request.key))
      return refuse()
    }
    if (request.signature === undefined && !isNone && requests < requestsMost) {
      transport.send(message(messages.userauthPkOk, request.algorithm, request.key))
      return
    }
    if (request.signature === undefined && !isNone) return refuse()
    isDone = true
    transport.send(message(messages.userauthSuccess))
    onAccepted(authResult.identity)
  }

  function refuse(): void {
    if (failures < tries && requests < requestsMost) {
      transport.send(message(messages.userauthFailure, 'publickey', false))
      return
    }
    isDone = true
    transport.end(disconnectReasons.noMoreAuthMethods, 'Too many authentication failures')
  }

  function show(notice: string): void {
    if (shown.has(notice)) return
    shown.add(notice)
    transport.send(message(messages.userauthBanner, `${notice}\r\n`, ''))
  }

  // What a client claims and may claim: nothing that is signed wrongly, or of a method that is not served.
  function toAuthRequest(request: Request, payload: Buffer): AuthRequest | undefined {
    const { username, method, key, algorithm, signature } = request
    if (method === 'none') return { username, key: undefined }
    if (method !== 'publickey' || !fitsAlgorithm(typeOf(key), algorithm)) return undefined
    if (signature === undefined) return { username, key }
    const asked = payload.subarray(0, request.signedBytes)
    const data = Buffer.concat([writeString(transport.sessionId()), asked])
    const isRight = verifySignature({ blob: key, algorithm, signature, data })
    return isRight ? { username, key } : undefined
  }

  return {
    receive,

    /** What was tried, for the log: as whom, and with which keys that were refused. */
    summary: () => ({ user, refusedKeys: [...refused] }),
  }
}

type Request = ReturnType<typeof readRequest>

// RFC 4252, sections 5 and 7.
function readRequest(payload: Buffer) {
  const reader = createReader(payload, 1)
  const username = reader.text()
  const service = reader.text()
  const method = reader.text()
  if (service !== 'ssh-connection') throw new RangeError('There is no such service.')
  const none = { username, method, key: Buffer.alloc(0), algorithm: '', signedBytes: 0 }
  if (method !== 'publickey') return { ...none, signature: undefined }
  const isSigned = reader.boolean()
  const algorithm = reader.text()
  const key = reader.string()
  const signedBytes = reader.position()
  const signature = isSigned ? reader.string() : undefined
  reader.assertEnd()
  return { username, method, key, algorithm, signedBytes, signature }
}

function typeOf(key: Buffer): string {
  return createReader(key).text()
}
