// Tags: exhaustive
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { createServer, type RequestListener } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { type AddressInfo, createServer as createTcpServer } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { after, before, test } from 'node:test'
import { displayWidth } from '#base/display-width.ts'
import { operations } from '#cli/operations/client-operations.ts'
import { createAuthority } from '../support/certificates.ts'
import { type ClientHome, createClientHome, loggedIn } from '../support/client-home.ts'
import { temporaryFolder } from '../support/git.ts'
import { type Service, startService } from '../support/service.ts'
import { newKeyLine } from '../support/ssh-keys.ts'

const token = `svc_${'a'.repeat(36)}`
const problem = { 'content-type': 'application/problem+json' }
const json = { 'content-type': 'application/json' }

let home: ClientHome

before(async () => {
  home = await createClientHome()
})

after(() => home[Symbol.asyncDispose]())

/** An HTTP server that is not svc, and the requests that it was sent. */
async function startOther(respond: RequestListener) {
  const seen: { url: string; authorization: string | undefined }[] = []
  const server = createServer((request, response) => {
    seen.push({ url: request.url ?? '', authorization: request.headers.authorization })
    respond(request, response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    seen,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

/** Runs a command against an address; it fails with one line. */
async function failing(url: string, args: string[] = ['repos', 'list']) {
  const { code, out, err } = await home.run(args, { env: { SVC_URL: url, SVC_TOKEN: token } })
  assert.equal(out, '')
  assert.match(err, /^svc: [^\n]*\.\n$/)
  assert.ok(!err.includes(token))
  return { code, err }
}

test('paths in a repository are taken as shells complete them, and those that leave it refused', async () => {
  const bodies: string[] = []
  await using server = await startOther(async (request, response) => {
    bodies.push(await text(request))
    response.writeHead(400, problem).end('{"code":"invalid_request","detail":"No."}')
  })
  const run = (args: string[]) => home.run(args, { env: { SVC_URL: server.url, SVC_TOKEN: token } })
  const takers = operations.flatMap(({ command, arguments: names = [], options = {} }) => {
    const others = names.filter((name) => !/^\[/.test(name) && name !== 'path').map(() => 'x')
    const message = command === 'commit' ? ['-m', 'x'] : []
    const before = [...command.split(' '), ...message, ...others]
    return [
      ...(names.some((name) => /\bpath\b/.test(name)) ? [(path: string) => [...before, path]] : []),
      ...Object.keys(options).flatMap((flags) => {
        const [flag = ''] = flags.split(' ')
        const toValue = valueOfPath[`${command} ${flag}`] ?? valueOfPath[flag]
        if (!toValue) return []
        const file = names.includes('path') && flag !== '--path' ? ['file'] : []
        return [(path: string) => [...before, ...file, flag, toValue(path)]]
      }),
    ].map((toArguments) => ({ command, toArguments }))
  })
  assert.ok(takers.length >= 16, `${takers.length}`)
  for (const { command, toArguments } of takers) {
    for (const path of ['../x', 'a/../b', '/etc/x', '..']) {
      server.seen.splice(0)
      const { code, err } = await run(toArguments(path))
      assert.deepEqual([code, server.seen.length], [2, 0], `${command}: ${err}`)
      assert.ok(err.startsWith(`svc: The path "${path}" is not within the repository;`), err)
    }
    bodies.splice(0)
    await run(toArguments('./a//./b/'))
    const [{ url = '' } = {}] = server.seen
    const sent = [decodeURIComponent(url), ...bodies].join()
    assert.match(sent, /[="]a\/b([&",]|$)/, `${command} sends ${sent}`)
    assert.ok(!sent.includes('./'), sent)
  }
})

/** Options with paths in the repository: the value for a path. */
const valueOfPath: Record<string, (path: string) => string> = {
  '--path': (path) => path,
  '--file': (path) => path,
  '--requires': (path) => path,
  'commit --add': (path) => `${path}=${import.meta.filename}`,
  'commit --delete': (path) => path,
  'commit --move': (path) => `from=${path}`,
}

test('a server that is down is named in one sentence', async () => {
  const { code, err } = await failing('http://127.0.0.1:1')
  assert.equal(code, 3)
  assert.match(err, /http:\/\/127\.0\.0\.1:1 cannot be reached: nothing listens there/)
  assert.match(
    (await failing('http://nowhere.invalid')).err,
    /nowhere\.invalid cannot be reached: /,
  )
})

test('a server that does not respond, or never ends a response, is given up', async () => {
  await using silent = await startOther(() => {})
  const timeout = ['repos', 'list', '--timeout', '0.2']
  const { code, err } = await failing(silent.url, timeout)
  assert.equal(code, 3)
  assert.match(err, /does not respond within 0\.2 seconds; try again, or set --timeout/)
  await using trickling = await startOther((_request, response) => {
    response.writeHead(200, json).write('[')
    const timer = setInterval(() => response.write(' '), 20)
    response.on('close', () => clearInterval(timer))
  })
  assert.match((await failing(trickling.url, timeout)).err, /does not respond within/)
  const { code: usage } = await failing(silent.url, ['repos', 'list', '--timeout', 'soon'])
  assert.equal(usage, 2)
})

test('JSON that is no object and no list is not taken for a success', async () => {
  for (const body of ['"str"', '1', 'true', 'null']) {
    await using other = await startOther((_, response) => response.writeHead(200, json).end(body))
    const { code, err } = await failing(other.url, ['repos', 'create', 'x'])
    assert.equal(code, 3)
    assert.match(err, /does not respond as svc does/)
  }
})

test('a server that is not svc is recognized, and login sends it no token', async () => {
  await using page = await startOther((_request, response) =>
    response.writeHead(200, { 'content-type': 'text/html' }).end('<h1>Hello</h1>'),
  )
  assert.match((await failing(page.url)).err, /does not respond as svc does; check the address/)
  const { seen } = page
  seen.length = 0
  const refused = await home.run(['login', page.url], { input: token })
  assert.equal(refused.code, 3)
  assert.deepEqual(
    seen.map(({ authorization }) => authorization),
    [undefined],
  )

  await using missing = await startOther((_request, response) => response.writeHead(404).end('no'))
  assert.match((await failing(missing.url)).err, /responds with status 404, not as svc does/)
  await using proxy = await startOther((_request, response) => response.writeHead(502).end('no'))
  assert.match((await failing(proxy.url)).err, /its proxy does not reach the server/)
  await using broken = await startOther((_request, response) =>
    response.writeHead(200, json).end('{"a":'),
  )
  assert.match((await failing(broken.url)).err, /does not respond as svc does/)
  await using closing = await startOther((request) => request.socket.destroy())
  assert.match((await failing(closing.url)).err, /the connection was closed; try again/)
  const plain = createTcpServer((socket) => socket.end('SSH-2.0-other\r\n'))
  await new Promise<void>((resolve) => plain.listen(0, '127.0.0.1', resolve))
  const { port } = plain.address() as AddressInfo
  assert.match((await failing(`http://127.0.0.1:${port}`)).err, /it does not speak HTTP there/)
  plain.close()
})

test('a log or a stream that svc does not send is no success', async () => {
  await using page = await startOther((_request, response) =>
    response.writeHead(200, { 'content-type': 'text/html' }).end('<h1>Log in</h1>'),
  )
  for (const args of [
    ['runs', 'logs', 'x', '1'],
    ['runs', 'watch', 'x', '1'],
    ['events', '--follow'],
    ['metrics'],
  ]) {
    const { code, out, err } = await home.run(args, {
      env: { SVC_URL: page.url, SVC_TOKEN: token },
    })
    assert.deepEqual([code, out], [3, ''], args.join(' '))
    assert.match(err, /does not respond as svc does; check the address of the server\.\n$/)
  }
  await using broken = await startOther((_request, response) =>
    response
      .writeHead(200, { 'content-type': 'text/event-stream' })
      .end('id: 1\ndata: not JSON \x1b[31m\n\n'),
  )
  const { code, err } = await failing(broken.url, ['events', '--follow'])
  assert.equal(code, 3)
  assert.match(err, /does not respond as svc does/)
})

test('a log that breaks off is no success', async () => {
  await using server = await startOther((_request, response) => {
    response.writeHead(200, { 'content-type': 'text/plain', 'content-length': 1000 })
    response.write('one\ntw')
    setTimeout(() => response.destroy(), 100)
  })
  const env = { SVC_URL: server.url, SVC_TOKEN: token }
  const { code, out, err } = await home.run(['runs', 'logs', 'x', '1'], { env })
  assert.deepEqual([code, out], [3, 'one\n'])
  assert.match(err, /^svc: \S+ cannot be reached: the connection was closed; try again\.\n$/)
})

test('a server does not choose the folder of a clone', async () => {
  const name = '../outside'
  await using server = await startOther((request, response) => {
    if (request.url?.startsWith('/repos/tour.git/')) response.writeHead(404).end()
    else response.writeHead(200, json).end(JSON.stringify({ name, cloneUrls: {} }))
  })
  const env = { SVC_URL: server.url, SVC_TOKEN: token }
  const { code, err } = await home.runProgram(['clone', 'tour'], { env })
  assert.equal(code, 1)
  assert.match(err, /^Cloning into 'tour'/)
  assert.deepEqual(
    server.seen.map(({ url }) => url),
    ['/repos/tour', '/repos/tour.git/info/refs?service=git-upload-pack'],
  )
})

test('an older server is named as such', async () => {
  await using old = await startOther((_request, response) =>
    response.writeHead(404, problem).end(JSON.stringify({ code: 'route_not_found', detail: 'No' })),
  )
  const { code, err } = await failing(old.url)
  assert.equal(code, 1)
  assert.match(err, /the server runs an older version of svc than this client/)
})

test('a redirect is not followed, so the token goes to no other address', async () => {
  await using target = await startOther((_request, response) => response.writeHead(200).end())
  await using redirecting = await startOther((_request, response) =>
    response.writeHead(307, { location: `${target.url}/repos` }).end(),
  )
  const { code, err } = await failing(redirecting.url)
  assert.equal(code, 3)
  assert.match(err, /redirects to http\S+, which is not followed; log in with the final address/)
  assert.deepEqual(target.seen, [])

  // A cursor of the next page leads nowhere else, either.
  await using paging = await startOther((request, response) => {
    const link = `<${target.url}/?cursor=x>; rel="next"`
    const isFirst = !request.url?.includes('cursor')
    response.writeHead(200, { ...json, ...(isFirst && { link }) }).end('[]')
  })
  await home.svc(['repos', 'list'], { env: { SVC_URL: paging.url, SVC_TOKEN: token } })
  assert.equal(paging.seen.length, 2)
  assert.deepEqual(target.seen, [])
})

test('faults of a certificate are explained', async () => {
  await using folder = await temporaryFolder()
  const authority = await createAuthority(folder.path)
  const server = createTlsServer(await authority.issue('localhost'), (_request, response) =>
    response.end(),
  )
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const { code, err } = await failing(`https://localhost:${port}`)
  assert.equal(code, 3)
  assert.match(err, /signed by an authority that this machine does not know; .*NODE_EXTRA_CA_CERTS/)
  await using plain = await startOther((_request, response) => response.end())
  const wrong = await failing(plain.url.replace('http:', 'https:'))
  assert.match(wrong.err, /it does not speak TLS there; does the address begin with http/)
  server.close()
})

const evil = '\x1b]0;owned\x07\x1b[2J\u202e\x9b31m\u0085\u2028\r\nfake: line'
const controls = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\u2028]/

/** Commands that print text with lines of its own. */
const withOwnLines = ['runs logs', 'runs watch', 'browse file', 'metrics']
/** What commands need apart from their arguments. */
const furtherWords: Record<string, string[]> = {
  commit: ['--message', 'x', '--delete', 'x'],
  events: ['--limit', '1'],
}
/** Commands that are not for a terminal, and why. */
const notForTerminals: Record<string, string> = {
  'browse archive': 'prints an archive',
  'artifacts get': 'prints an archive',
  'runs shell': 'is a terminal',
  clone: 'prints what git prints',
}

type Schema = {
  type?: string
  properties?: Record<string, Schema>
  items?: Schema
  anyOf?: Schema[]
  allOf?: Schema[]
  $ref?: string
  additionalProperties?: Schema | boolean
}

/** A server that responds as its OpenAPI document says, with hostile text in place of each string. */
async function startHostile(document: {
  paths: Record<string, Record<string, { responses: Record<string, { content?: object }> }>>
  components: { schemas: Record<string, Schema> }
}) {
  function sample(schema: Schema | undefined): unknown {
    if (schema?.$ref !== undefined)
      return sample(document.components.schemas[schema.$ref.replace(/.*\//, '')])
    if (schema?.allOf) return Object.assign({}, ...schema.allOf.map(sample))
    if (schema?.anyOf) return sample(schema.anyOf.find(({ type }) => type !== 'null'))
    if (schema?.type === 'array') return [sample(schema.items)]
    if (schema?.type === 'boolean') return true
    if (schema?.type === 'integer' || schema?.type === 'number') return 1
    if (schema?.type !== 'object' && !schema?.properties) return evil
    const { properties = {}, additionalProperties } = schema
    const own = Object.entries(properties).map(([name, one]) => [name, sample(one)])
    if (typeof additionalProperties === 'object') own.push([evil, sample(additionalProperties)])
    return Object.fromEntries(own)
  }
  const routes = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, { responses }]) => {
      const [status = '200', reply] =
        Object.entries(responses).find(([code]) => code.startsWith('2')) ?? []
      const contents = Object.entries<{ schema?: Schema }>({ ...reply?.content })
      const pattern = new RegExp(`^${path.replace(/\{\w+\}/g, '[^/]+')}$`)
      return { method: method.toUpperCase(), pattern, status: Number(status), contents }
    }),
  )
  return startOther((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? '', 'http://x')
    const isStream = searchParams.get('follow') === 'true'
    const found = routes.find(
      ({ method, pattern }) => method === request.method && pattern.test(pathname),
    )
    if (pathname === '/repos/bad' || !found) {
      const body = { code: evil, detail: evil, errors: [{ pointer: evil, detail: evil }] }
      response.writeHead(403, problem).end(JSON.stringify(body))
      return
    }
    const wanted = isStream ? 'text/event-stream' : 'json'
    const [type, content] =
      found.contents.find(([name]) => name.includes(wanted)) ?? found.contents[0] ?? []
    response.writeHead(found.status, type === undefined ? {} : { 'content-type': type })
    if (type === undefined) response.end()
    else if (isStream)
      response.end(`event: ${evil}\ndata: ${evil}\nid: 1\n\nevent: end\ndata: {}\n\n`)
    else response.end(type.includes('json') ? JSON.stringify(sample(content?.schema)) : `${evil}\n`)
  })
}

test('text of a server cannot control the terminal, whichever command prints it', async () => {
  await using service = await startService()
  await using server = await startHostile((await service.admin.get('/openapi.json')).body)
  const env = { SVC_URL: server.url, SVC_TOKEN: token }
  let printed = 0
  for (const { command, arguments: names = [], confirm } of operations) {
    if (command in notForTerminals) continue
    const words = [
      ...command.split(' '),
      ...names.map(() => 'x'),
      ...(furtherWords[command] ?? []),
      ...(confirm ? ['--yes'] : []),
    ]
    for (const more of [[], ['--json']]) {
      const args = [...words, ...more, '--timeout', '5']
      const { out, err } = await home.run(args, { env, columns: 80, input: newKeyLine() })
      assert.doesNotMatch(out + err, controls, args.join(' '))
      if (!withOwnLines.includes(command)) assert.doesNotMatch(out + err, /^fake/m, args.join(' '))
      if (/fake: line/.test(out + err)) printed += 1
    }
  }
  assert.ok(printed > operations.length / 2, `${printed} of ${operations.length} commands print it`)
})

test('text of a server cannot control the terminal in errors, nor change JSON', async () => {
  await using service = await startService()
  await using server = await startHostile((await service.admin.get('/openapi.json')).body)
  const env = { SVC_URL: server.url, SVC_TOKEN: token }
  const bad = await home.run(['repos', 'show', 'bad'], { env, columns: 80 })
  assert.match(bad.err, /^svc: [^\n]*fake: line[^\n]*\n$/)
  assert.doesNotMatch(bad.err, controls)
  const { shown } = await home.onTerminal(['repos', 'list'], [], { env })
  assert.doesNotMatch(shown.replaceAll('\r\n', '\n'), controls)
  const { out } = await home.run(['repos', 'list', '--json'], { env })
  assert.equal(JSON.parse(out)[0].name, evil)
  const watched = await home.run(['runs', 'watch', 'x', '1', '--json'], { env })
  assert.equal(JSON.parse(watched.out).conclusion, evil)
  assert.doesNotMatch(watched.out, controls)
})

test('a run that does not exist is not waited for', async () => {
  await using service = await startService()
  await service.admin.post('/repos', { name: 'tour' })
  const env = { SVC_URL: service.url, SVC_TOKEN: service.adminToken }
  for (const run of ['999', '12345678901', 'x']) {
    const { code, shown } = await home.onTerminal(['runs', 'watch', 'tour', run], [], { env })
    assert.equal(code, 1)
    assert.equal(shown, `svc: There is no run with the number or id "${run}".\r\n`)
  }
})

test('a login link that is no address of a web page is refused', async () => {
  for (const url of ['javascript:alert(1)', 'file:///etc/passwd', 'https:alert', '//x', evil]) {
    await using server = await startOther((_request, response) =>
      response.writeHead(201, json).end(JSON.stringify({ url, expiresAt: 1 })),
    )
    const env = { SVC_URL: server.url, SVC_TOKEN: token }
    for (const more of [[], ['--json']]) {
      const { code, out, err } = await home.run(['login', '--web', ...more], { env })
      assert.deepEqual([code, out], [3, ''])
      assert.match(err, /does not respond as svc does/)
    }
  }
})

test('a code for the browser that could control the terminal is not shown', async () => {
  await using server = await startOther(({ url }, response) =>
    response
      .writeHead(200, { 'content-type': 'application/json' })
      .end(
        JSON.stringify(
          url === '/openapi.json'
            ? { info: { title: 'svc' } }
            : { userCode: evil, expiresAt: 1, provider: 'x' },
        ),
      ),
  )
  const { code, out, err } = await home.run(['login', server.url, '--code'])
  assert.deepEqual([code, out], [3, ''])
  assert.match(err, /^[ -~\n]*does not respond as svc does[ -~\n]*$/)
})

test('names that a URL would resolve are refused', async () => {
  await using server = await startOther((_request, response) =>
    response.writeHead(200, json).end('{}'),
  )
  for (const name of ['.', '..']) await failing(server.url, ['repos', 'delete', name, '--yes'])
  const env = { SVC_URL: server.url, SVC_TOKEN: token }
  await home.svc(['repos', 'show', 'a/../../x?y#z'], { env })
  assert.deepEqual(
    server.seen.map(({ url }) => url),
    ['/repos/a%2F..%2F..%2Fx%3Fy%23z'],
  )
})

test('tables fit the terminal, and are whole in a pipe', async () => {
  await using service = await startService()
  await using user = await loggedIn(service)
  const description = 'word '.repeat(40).trim()
  await user.svc(['repos', 'create', 'tour'])
  await user.svc(['repos', 'edit', 'tour', '--description', description])
  const { shown } = await user.onTerminal(['repos', 'list'], [], { columns: 60 })
  assert.match(shown, /…/)
  for (const line of shown.split('\r\n')) assert.ok(line.length <= 60, line)
  assert.ok((await user.svc(['repos', 'list'])).includes(description))
})

test('ids are whole in a table, whose last columns give way, and wide characters are counted', async () => {
  const id = '01m86ktvrdb4v5ybcn9fgw04s5'
  const refs = [{ ref: `refs/heads/${'long-'.repeat(20)}`, action: 'created' }]
  const push = { id, pushedAt: 1, actor: { username: 'ada' }, via: 'http', undoable: true, refs }
  const repository = { name: '日本語', ownerUsername: 'ada', description: '漢字'.repeat(40) }
  await using server = await startOther((request, response) => {
    const body = request.url?.includes('/pushes') ? [push] : [repository]
    response.writeHead(200, json).end(JSON.stringify(body))
  })
  const env = { SVC_URL: server.url, SVC_TOKEN: token }
  const shownAt = async (columns: number, ...args: string[]) => {
    const { out } = await home.run(args, { env, columns })
    const lines = out.trim().split('\n')
    for (const line of lines) assert.ok(displayWidth(line) <= columns, `${columns}: ${line}`)
    return lines
  }
  for (const columns of [120, 80, 40]) {
    const [, row] = await shownAt(columns, 'pushes', 'list', 'x')
    assert.ok(String(row).startsWith(id), row ?? '')
  }
  for (const columns of [60, 20]) {
    const [, row] = await shownAt(columns, 'repos', 'list')
    assert.match(String(row), /^日本語 /)
  }
})

test('Ctrl-C and Ctrl-D at a question change nothing', async () => {
  const env = { SVC_URL: 'http://127.0.0.1:1', SVC_TOKEN: token }
  for (const key of ['\x03', '\x04']) {
    const args = ['repos', 'delete', 'tour']
    const { code, shown } = await home.onTerminal(args, [[/Type its name/, key]], { env })
    assert.equal(code, 1)
    assert.match(shown, /\r\nsvc: Nothing was changed\.\r\n$/)
  }
})

test('a person is asked before what cannot be undone', async () => {
  await using service = await startService()
  await using user = await loggedIn(service)
  await user.svc(['repos', 'create', 'tour'])
  const wrong = await user.onTerminal(['repos', 'delete', 'tour'], [[/Type its name/, 'no\r']])
  assert.deepEqual(wrong.code, 1)
  assert.match(wrong.shown, /svc: Nothing was changed\./)
  assert.equal((await service.admin.get('/repos/tour')).status, 200)
  const right = await user.onTerminal(['repos', 'delete', 'tour'], [[/Type its name/, 'tour\r']])
  assert.equal(right.code, 0, right.shown)
  assert.equal((await service.admin.get('/repos/tour')).status, 404)

  // A secret is typed without echo.
  await user.svc(['repos', 'create', 'safe'])
  const typed = await user.onTerminal(
    ['secrets', 'set', 'safe', 'KEY'],
    [[/Value of KEY: /, 'sesame\r']],
  )
  assert.match(typed.shown, /The secret KEY is saved/)
  assert.doesNotMatch(typed.shown, /sesame/)
})

test('no process has the token in its command line', async () => {
  await using service: Service = await startService()
  await using user = await loggedIn(service)
  await user.svc(['repos', 'create', 'tour'])
  // A git that writes down how it is called, in place of the real one.
  const bin = join(user.path, 'bin')
  const log = join(user.path, 'calls')
  await mkdir(bin)
  const script = `#!/bin/sh\necho "$@" >> ${log}\nPATH=$\{PATH#*:} exec git "$@"\n`
  await writeFile(join(bin, 'git'), script, { mode: 0o755 })
  const env = { PATH: `${bin}:${process.env.PATH}` }
  await user.svc(['clone', 'tour'], { env })
  await user.svc(['login', service.url, '--name', 'again'], { env, input: service.adminToken })
  const calls = await readFile(log, 'utf8')
  assert.match(calls, /^clone --config/m)
  assert.match(calls, /^config --get-urlmatch/m)
  assert.ok(!calls.includes('svc_'))
})

test('a reader that closes the pipe early gets no stack', async () => {
  for (const args of [['servers'], ['completions', 'bash'], ['--help']]) {
    const early = home.start(args)
    early.stdout.destroy()
    const closed = once(early, 'close')
    assert.equal(await text(early.stderr), '', args.join(' '))
    await closed
  }
  await using service = await startService()
  await using user = await loggedIn(service)
  const child = user.start(['events', '--follow', '--json'])
  child.stdout.destroy()
  let err = ''
  child.stderr.setEncoding('utf8').on('data', (chunk: string) => {
    err += chunk
  })
  const exited = once(child, 'close')
  while (child.exitCode === null)
    await service.admin.post('/keys', { publicKey: newKeyLine(), name: 'x' })
  await exited
  assert.equal(err, '')
})
