import assert from 'node:assert/strict'
import { test } from 'node:test'
import { deviceOf } from './session-list-pages.ts'

test('a browser and its device are named in words', () => {
  const gecko = 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0'
  const webkit = 'AppleWebKit/605.1.15 (KHTML, like Gecko) Version/26.0'
  const blink = 'AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0'
  const cases: [string, string][] = [
    [gecko, 'Firefox on Linux'],
    [
      `Mozilla/5.0 (Windows NT 10.0; Win64; x64) ${blink} Safari/537.36 Edg/140.0`,
      'Edge on Windows',
    ],
    [`Mozilla/5.0 (Linux; Android 10; K) ${blink} Mobile Safari/537.36`, 'Chrome on Android'],
    [
      `Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) ${webkit} Safari/605.1.15`,
      'Safari on macOS',
    ],
    [
      `Mozilla/5.0 (iPhone; CPU iPhone OS 26_0 like Mac OS X) ${webkit} Safari/604.1`,
      'Safari on iPhone',
    ],
    ['curl/8.5.0', 'curl'],
    ['Mozilla/5.0', 'Unknown device'],
    ['<script>', 'Unknown device'],
    ['', 'Unknown device'],
  ]
  for (const [userAgent, expected] of cases) assert.equal(deviceOf(userAgent), expected)
})
