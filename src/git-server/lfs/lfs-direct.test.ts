import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isReachableFrom } from './lfs-direct.ts'

// Whether clients that reach the server transfer objects from and to the bucket; undefined: not now.
const cases: [server: string, bucket: string, isDirect: boolean | undefined][] = [
  ['https://8.8.8.8', 'https://1.1.1.1', true],
  ['http://8.8.8.8', 'https://1.1.1.1', true],
  ['http://8.8.8.8', 'http://1.1.1.1:9000', true],
  ['https://8.8.8.8', 'http://1.1.1.1', false],
  ['https://8.8.8.8', 'https://10.0.0.1', false],
  ['https://8.8.8.8', 'https://127.0.0.1', false],
  ['https://8.8.8.8', 'https://[fd00::1]', false],
  ['https://[2606:4700::1111]', 'https://[2606:4700::1112]', true],
  // An IPv4 address in an IPv6 one.
  ['https://8.8.8.8', 'https://[::ffff:10.0.0.1]', false],
  ['https://10.0.0.1', 'https://1.1.1.1', true],
  ['https://10.0.0.1', 'https://192.168.0.1', true],
  ['http://10.0.0.1', 'http://127.0.0.1', false],
  ['http://127.0.0.1:8080', 'http://10.0.0.1', true],
  ['http://localhost:8080', 'http://127.0.0.1:9000', true],
  ['http://127.0.0.1:8080', 'http://169.254.169.254', false],
  ['http://127.0.0.1:8080', 'http://bucket.invalid', undefined],
  ['http://server.invalid', 'http://127.0.0.1', undefined],
]

for (const [server, bucket, isDirect] of cases)
  test(`clients of ${server} and a bucket at ${bucket}: ${isDirect}`, async () => {
    assert.equal(await isReachableFrom(server, bucket), isDirect)
  })
