import assert from 'node:assert/strict'
import { get, type IncomingHttpHeaders } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { after, before, beforeEach, test } from 'node:test'
import { gunzipSync } from 'node:zlib'
import { until } from '../support/condition.ts'
import { exhaustive } from '../support/exhaustive.ts'
import { logIn, type PageClient } from '../support/page-client.ts'
import { type Service, startService } from '../support/service.ts'
import { oneStep, pushFiles } from '../support/workflow-site.ts'

let service: Service
let client: PageClient
let commit: string

// Different from one another, as the lines of programs are.
const lines = (count: number, from = 0) =>
  Array.from(
    { length: count },
    (_, index) =>
      `export const value${index + from} = compute(${(index + from) ** 3}, 'some text')\n`,
  ).join('')

before(async () => {
  service = await startService()
  const { admin } = service
  const files = Array.from({ length: 60 }, (_, index) => [`src/file-${index}.ts`, lines(3, index)])
  await pushFiles(admin, 'demo', {
    ...oneStep('true'),
    ...Object.fromEntries(files),
    'long.ts': lines(2000),
    'image.svg': '<svg xmlns="http://www.w3.org/2000/svg"/>',
    'binary.bin': '\0\u0001',
    'README.md': '# Demo\n',
  })
  for (let index = 0; index < 3; index++)
    await pushFiles(admin, 'demo', { 'src/file-1.ts': lines(3, index) })
  commit = await pushFiles(admin, 'demo', { 'new.ts': lines(300) })
})

// Pages are limited by token.
beforeEach(async () => {
  const { token } = await service.client({ username: 'admin', permissions: ['admin'] })
  client = await logIn(service.url, token)
})

after(() => service[Symbol.asyncDispose]())

type Sent = { status: number; headers: IncomingHttpHeaders; bytes: Buffer }

/** Requests an address as a browser does; the bytes are those that are sent. */
async function request(path: string, headers: Record<string, string> = {}): Promise<Sent> {
  const { promise, resolve, reject } = Promise.withResolvers<Sent>()
  const all = { cookie: client.cookie(), 'accept-encoding': 'gzip, br', ...headers }
  get(service.url + path, { headers: all }, async (response) => {
    const bytes = await buffer(response)
    resolve({ status: response.statusCode ?? 0, headers: response.headers, bytes })
  }).on('error', reject)
  return await promise
}

function textOf({ headers, bytes }: Sent): string {
  return (headers['content-encoding'] === 'gzip' ? gunzipSync(bytes) : bytes).toString()
}

test('pages weigh little', exhaustive, async () => {
  const limits: [path: string, maxBytes: number][] = [
    ['/', 12_000],
    ['/r/demo', 15_000],
    ['/r/demo/src/main:src', 15_000],
    ['/r/demo/log/main', 15_000],
    ['/r/demo/runs', 15_000],
    [`/r/demo/commit/${commit}`, 20_000],
  ]
  for (const [path, maxBytes] of limits) {
    const sent = await request(path)
    assert.equal(sent.status, 200, path)
    assert.ok(sent.bytes.length <= maxBytes, `${path}: ${sent.bytes.length} bytes`)
  }
})

test(
  'the first view of a page takes few requests, for few bytes of styles, script and fonts',
  exhaustive,
  async () => {
    for (const path of ['/', '/r/demo', `/r/demo/commit/${commit}`, '/r/demo/runs', '/-/tokens']) {
      const page = textOf(await request(path))
      const links = [...page.matchAll(/(?:href|src)="([^"]*\/(?:assets\/[^"]*|favicon\.svg))"/g)]
      const sum = { css: 0, js: 0, woff2: 0, svg: 0 }
      const addresses = new Set(links.map(([, address = '']) => address))
      let requests = 1
      // Fonts, which styles name, come at the end.
      for (const address of addresses) {
        const sent = await request(address)
        assert.equal(sent.status, 200, address)
        const kind = address.slice(address.lastIndexOf('.') + 1) as keyof typeof sum
        sum[kind] += sent.bytes.length
        requests += 1
        if (kind !== 'css') continue
        for (const [, name = ''] of textOf(sent).matchAll(/url\("?([^")]*\.woff2)"?\)/g))
          addresses.add(new URL(name, new URL(address, service.url)).pathname)
      }
      assert.ok(requests <= 6, `${path}: ${requests} requests`)
      assert.ok(sum.css > 0 && sum.css <= 10_000, `${path}: ${sum.css} bytes of styles`)
      assert.ok(sum.js > 0 && sum.js <= 3000, `${path}: ${sum.js} bytes of script`)
      assert.ok(sum.woff2 > 0 && sum.woff2 <= 75_000, `${path}: ${sum.woff2} bytes of fonts`)
    }
  },
)

test('what a client has is not sent again', async () => {
  const paths = [
    '/',
    '/r/demo',
    '/r/demo/log/main',
    '/r/demo/log/main.atom',
    `/r/demo/commit/${commit}`,
    `/r/demo/commit/${commit}.diff`,
    '/r/demo/raw/main:long.ts',
    '/r/demo/raw/main:image.svg',
    '/r/demo/raw/main:binary.bin',
    '/r/demo/archive/main.zip',
  ]
  for (const path of paths) {
    // A page is another one as soon as an age in it has other words, or a commit was read in time.
    const { headers, known } = await until(`${path} is the same again`, async () => {
      const { status, headers } = await request(path)
      assert.equal(status, 200, path)
      const known = { 'if-none-match': headers.etag ?? '' }
      const again = await request(path, known)
      const plain = await request(path, { ...known, 'accept-encoding': 'identity' })
      if (again.status === 200 || plain.status === 200) return undefined
      assert.deepEqual([again.status, again.bytes.length, plain.status], [304, 0, 304], path)
      return { headers, known }
    })
    assert.match(headers.vary ?? '', /cookie.*accept-encoding/, path)
    assert.equal((await request(path, { ...known, cookie: '' })).status, 303, path)
  }
})

test('compressed and not, pages and files are the same', async () => {
  for (const path of [
    '/r/demo/src/main:src',
    '/r/demo/src/main:long.ts',
    `/r/demo/commit/${commit}`,
    '/r/demo/raw/main:long.ts',
  ]) {
    // A folder is shown at once, and with its last commits as soon as they are found.
    const plain = await until('the page is complete', async () => {
      const sent = await request(path, { 'accept-encoding': 'identity' })
      return !/ data-again=/.test(textOf(sent)) && sent
    })
    const [first, again] = [await request(path), await request(path)]
    assert.equal(plain.headers['content-encoding'], undefined, path)
    assert.equal(first.headers['content-encoding'], 'gzip', path)
    const withoutAges = (text: string) => text.replace(/>[^<]*<\/time>/g, '></time>')
    for (const sent of [first, again])
      assert.equal(withoutAges(textOf(sent)), withoutAges(textOf(plain)), path)
    assert.ok(first.bytes.length < plain.bytes.length / 2, path)
  }
})
