import { redactTokens } from '#base/redact-tokens.ts'
import { disconnectReasons, messages } from './messages.ts'
import { fingerprintOf } from './public-key.ts'
import { fitsAlgorithm, verifySignature } from './signature.ts'
import type { Transport } from './transport.ts'
import { createReader, message, writeString } from './wire.ts'

/** An authentication attempt: a user name, and a key whose private key the client has proven to hold. */
export type AuthRequest = {
  username: string
  /** The public key in wire format; undefined when the client names no key. */
  key: Buffer | undefined
}

export type AuthResult<Identity> = {
  /** Undefined when the attempt is refused. */
  identity: Identity | undefined
  /** Shown to the user when the attempt is refused. */
  notice?: string
}

type Options<Identity> = {
  transport: Transport
  /** Failed attempts after which a client is disconnected. */
  tries: number
  authenticate: (authRequest: AuthRequest) => Promise<AuthResult<Identity>>
  onAccepted: (identity: Identity) => void
  /** Called with an error of `authenticate`. */
  onError: (error: unknown) => void
}

const queueLength = 10
// Queries for acceptable keys are not failed attempts, but need a limit.
const maxRequests = 50
const userMaxLength = 100

/**
 * Public key authentication: RFC 4252, with RFC 8332. Only a request with a valid signature establishes an identity;
 * earlier queries about keys have no effect.
 */
export function createUserauth<Identity>(options: Options<Identity>) {
  const { transport, tries, authenticate, onAccepted, onError } = options
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
        if (!isServiceAccepted || queue.length >= queueLength)
          throw new Error('Unexpected request.')
        queue.push(payload)
        void work()
        return
      default:
        throw new Error('Authentication is required first.')
    }
  }

  function acceptService(name: string): void {
    if (name !== 'ssh-userauth') {
      transport.end(disconnectReasons.serviceNotAvailable, 'Unknown service')
      return
    }
    isServiceAccepted = true
    transport.send(message(messages.serviceAccept, name))
  }

  // Requests are processed one at a time; a client may send several.
  async function work(): Promise<void> {
    if (isBusy) return
    isBusy = true
    try {
      for (let next = queue.shift(); next && !isDone; next = queue.shift()) await respond(next)
    } catch (error) {
      if (error instanceof RangeError) {
        transport.end(
          disconnectReasons.protocolError,
          'The request for authentication is malformed',
        )
      } else {
        transport.end(disconnectReasons.byApplication, 'Authentication is not possible now')
        onError(error)
      }
    }
    isBusy = false
  }

  async function respond(payload: Buffer): Promise<void> {
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
      // Clients send "none" first, to get the list of methods.
      if (!isNone) failures += 1
      if (request.key.length > 0) refused.add(fingerprintOf(request.key))
      return refuse()
    }
    if (request.signature === undefined && !isNone && requests < maxRequests) {
      transport.send(message(messages.userauthPkOk, request.algorithm, request.key))
      return
    }
    if (request.signature === undefined && !isNone) return refuse()
    isDone = true
    transport.send(message(messages.userauthSuccess))
    onAccepted(authResult.identity)
  }

  function refuse(): void {
    if (failures < tries && requests < maxRequests) {
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

  // Undefined for an invalid signature, and for a method that is not supported.
  function toAuthRequest(request: Request, payload: Buffer): AuthRequest | undefined {
    const { username, method, key, algorithm, signature } = request
    if (method === 'none') return { username, key: undefined }
    if (method !== 'publickey' || !fitsAlgorithm(typeOf(key), algorithm)) return undefined
    if (signature === undefined) return { username, key }
    const signedRequest = payload.subarray(0, request.signedBytes)
    const data = Buffer.concat([writeString(transport.sessionId()), signedRequest])
    const isRight = verifySignature({ blob: key, algorithm, signature, data })
    return isRight ? { username, key } : undefined
  }

  return {
    receive,

    /** The attempted user name and refused keys, for the log. */
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
  if (service !== 'ssh-connection') throw new RangeError('Unknown service.')
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
