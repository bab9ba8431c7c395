import assert from 'node:assert/strict'
import { test } from 'node:test'
import { errors } from 'undici'
import { ConnectTimeoutError } from '#base/outbound/pinned-connect.ts'
import { Problem } from '#base/problem.ts'
import { AttemptTimeoutError, attemptError, statusError } from './attempt-error.ts'

const withCode = (code: string, message = `connect ${code} 10.9.8.7:443`, more: object = {}) =>
  Object.assign(new Error(message), { code, ...more })

test('the error of a delivery says why there was no response', () => {
  const cases: [unknown, string][] = [
    [withCode('ECONNREFUSED'), 'The receiver refused the connection.'],
    [withCode('ECONNRESET'), 'The receiver reset the connection.'],
    [
      new AggregateError([withCode('EHOSTUNREACH')]),
      'The receiver is unreachable from this server.',
    ],
    [
      withCode('UND_ERR_SOCKET', 'other side closed'),
      'The receiver closed the connection without a response.',
    ],
    [
      withCode('UND_ERR_SOCKET', 'fetch failed', { cause: withCode('ECONNRESET') }),
      'The receiver reset the connection.',
    ],
    [withCode('CERT_HAS_EXPIRED'), 'The certificate of hooks.example has expired.'],
    [
      withCode('ERR_TLS_CERT_ALTNAME_INVALID'),
      'The certificate of the receiver is not for hooks.example.',
    ],
    [withCode('CERT_UNTRUSTED'), 'The certificate of hooks.example cannot be verified.'],
    [new errors.HTTPParserError('Expected HTTP/'), 'The response is not valid HTTP.'],
    [new errors.SocketError('bad response'), 'The response is not valid HTTP.'],
    [withCode('ERR_SSL_WRONG_VERSION_NUMBER'), 'The TLS handshake with the receiver failed.'],
    [new ConnectTimeoutError(), 'The connection to the receiver timed out after 5 s.'],
    [new AttemptTimeoutError(), 'The receiver did not respond within 15 s.'],
    [new Problem('outbound_unresolved', 'It is not known.'), 'It is not known.'],
    [new Error('at 10.9.8.7'), 'The connection to the receiver failed.'],
    ['10.9.8.7', 'The connection to the receiver failed.'],
  ]
  for (const [error, sentence] of cases) {
    assert.equal(attemptError(error, 'hooks.example'), sentence)
  }
})

test('only a status of 2xx is a success', () => {
  assert.deepEqual([200, 204, 299].map(statusError), ['', '', ''])
  assert.equal(
    statusError(302),
    'The receiver responded with status 302; redirects are not followed.',
  )
  assert.equal(statusError(410), 'The receiver responded with status 410.')
  assert.equal(statusError(500), 'The receiver responded with status 500.')
})
