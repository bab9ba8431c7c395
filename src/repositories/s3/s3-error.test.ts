import assert from 'node:assert/strict'
import { test } from 'node:test'
import { connectionError, responseError, S3Error } from './s3-error.ts'

const xml = (code: string, message: string) =>
  `<?xml version="1.0"?><Error><Code>${code}</Code><Message>${message}</Message><StringToSign>hush</StringToSign></Error>`

test('an error of the store has its code and message, and nothing else of its body', () => {
  const error = responseError(
    'PutObject of a/b',
    403,
    xml('SignatureDoesNotMatch', 'Not &lt;ours&gt;'),
  )
  assert.equal(
    error.message,
    'PutObject of a/b failed: status 403, SignatureDoesNotMatch, Not <ours>',
  )
  assert.deepEqual([error.code, error.storeCode], ['rejected', 'SignatureDoesNotMatch'])
})

test('the reason of the store is one line of limited length', () => {
  const { message } = responseError(
    'PutObject of a/b',
    400,
    xml('Bad', `a\r\nb\0${'x'.repeat(9999)}`),
  )
  assert.match(message, /, Bad, a b x+$/)
  assert.ok(message.length < 500)
})

test('errors are classified by status and code', () => {
  const cases: [number, string, string][] = [
    [404, xml('NoSuchKey', ''), 'absent'],
    [404, '', 'absent'],
    [404, xml('NoSuchBucket', ''), 'rejected'],
    [404, xml('NoSuchUpload', ''), 'rejected'],
    [400, xml('BadDigest', ''), 'corrupt'],
    [400, xml('XAmzContentSHA256Mismatch', ''), 'corrupt'],
    [400, xml('RequestTimeout', ''), 'unavailable'],
    [503, xml('SlowDown', ''), 'unavailable'],
    [502, '<html>Bad gateway</html>', 'unavailable'],
    [200, xml('InternalError', ''), 'unavailable'],
    [301, xml('PermanentRedirect', ''), 'rejected'],
    [403, '<Code>never closed', 'rejected'],
  ]
  for (const [status, body, code] of cases) {
    assert.equal(responseError('GetObject of a', status, body).code, code, `${status} ${body}`)
  }
})

test('errors of the connection are translated, errors of files are not', () => {
  const withCode = (code: string) => Object.assign(new Error('message'), { code })
  const translated = (code: string) => connectionError('GetObject of a', withCode(code))
  for (const [code, expected] of [
    ['ECONNRESET', 'unavailable'],
    ['UND_ERR_HEADERS_TIMEOUT', 'unavailable'],
    ['CERT_HAS_EXPIRED', 'rejected'],
    ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'rejected'],
  ] as const) {
    const error = translated(code)
    assert.ok(error instanceof S3Error)
    assert.deepEqual(
      [error.code, error.message],
      [expected, `GetObject of a failed: message (${code})`],
    )
  }
  const full = withCode('ENOSPC')
  assert.equal(connectionError('GetObject of a', full), full)
})
