import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { createServer as createHttpServer, type RequestListener } from 'node:http'
import { createServer as createHttpsServer } from 'node:https'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { proxyUrl } from '#actions/sandbox/job-network.ts'
import type { Workspace } from '#actions/sandbox/sandbox.ts'
import { parseListedHosts } from '#base/outbound/listed-hosts.ts'
import { createAuthority } from '../support/certificates.ts'
import { exhaustive } from '../support/exhaustive.ts'
import { temporaryFolder } from '../support/git.ts'
import { without } from '../support/programs.ts'
import { openTestSandbox, runScript, until } from '../support/sandbox.ts'
import { testAsUnprivilegedUser, withoutUnprivilegedUser } from '../support/unprivileged-user.ts'

const file = fileURLToPath(import.meta.url)
const options = {
  skip: without('bubblewrap') || without('curl') || without('openssl'),
  timeout: 600_000,
}

test(
  'curl reaches listed hosts by HTTP and HTTPS, and the log has every connection',
  options,
  async () => {
    await using hosts = await serveHosts()
    await using place = await openPlace([`localhost:${hosts.http}`, `localhost:${hosts.https}`])
    const script = [
      `curl -sS http://localhost:${hosts.http}/plain`,
      `curl -sS --cacert /workspace/cert.pem https://localhost:${hosts.https}/secure`,
      `curl -sS -d sent http://localhost:${hosts.http}/post`,
      `curl -sS http://localhost:${hosts.other}/ -o /dev/null -w '%{http_code}\\n'`,
      `curl -sS http://127.0.0.1:${hosts.http}/ -o /dev/null -w '%{http_code}\\n'`,
    ]
    await place.write('cert.pem', hosts.authority)
    const { output, log } = await place.run(script.join('\n'), { NO_PROXY: '', no_proxy: '' })
    assert.equal(output, 'GET /plain \nGET /secure \nPOST /post sent\n403\n403\n')
    assert.deepEqual(log, [
      `network: localhost:${hosts.http} allowed`,
      `network: localhost:${hosts.https} allowed`,
      `network: localhost:${hosts.http} allowed`,
      `network: localhost:${hosts.other} refused: The network of this step does not include it.`,
      `network: 127.0.0.1:${hosts.http} refused: The network of this step does not include it.`,
    ])
  },
)

test('git clones through the proxy', options, async () => {
  await using folder = await temporaryFolder()
  // Git serves files as they are, and a reftable is none that a client reads.
  const env = { ...process.env, GIT_DEFAULT_REF_FORMAT: 'files' }
  const git = (...args: string[]) =>
    execFileSync('git', args, { cwd: folder.path, stdio: 'pipe', env })
  git('init', '-q', '-b', 'main', 'source')
  const identity = ['-c', 'user.name=a', '-c', 'user.email=a@example.com']
  git(...identity, '-C', 'source', 'commit', '-q', '--allow-empty', '-m', 'of the source')
  git('clone', '-q', '--bare', 'source', 'site.git')
  git('--git-dir=site.git', 'update-server-info')
  await using hosts = await serveHosts((request, response) => {
    readFile(join(folder.path, new URL(request.url ?? '', 'http://x').pathname)).then(
      (bytes) => response.end(bytes),
      () => response.writeHead(404).end(),
    )
  })
  await using place = await openPlace([`localhost:${hosts.http}`])
  const script = `git clone -q http://localhost:${hosts.http}/site.git && git -C site log --format=%s`
  const { output } = await place.run(script, { NO_PROXY: '', no_proxy: '' })
  assert.equal(output, 'of the source\n')
})

test(
  'servers of the step itself are reached on its loopback, without the proxy',
  options,
  async () => {
    await using place = await openPlace(['*'])
    const server =
      "perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(LocalAddr => q(127.0.0.1), LocalPort => 8080, Listen => 5, ReuseAddr => 1) or die; open F, q(>/tmp/ready); close F; while ($c = $s->accept) { sysread $c, $x, 1000; print $c qq(HTTP/1.0 200 OK\\r\\n\\r\\nown\\n); close $c }'"
    const script = `${server} & until test -e /tmp/ready; do sleep 0.01; done; curl -sS http://localhost:8080/ http://127.0.0.1:8080/`
    for (let step = 0; step < 2; step++) {
      const { output, log } = await place.run(`rm -f /tmp/ready; ${script}`)
      assert.deepEqual([output, log], ['own\nown\n', []])
    }
  },
)

test('a step has no way out but the proxy', options, async () => {
  await using hosts = await serveHosts()
  await using place = await openPlace(['*', `localhost:${hosts.http}`])
  const script = [
    'tail -n +2 /proc/net/route; ls /sys/class/net 2>/dev/null; cat /etc/resolv.conf 2>/dev/null',
    'tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d " "',
    `(exec 3<>/dev/tcp/127.0.0.1/${hosts.http}) 2>/dev/null && echo reached`,
    '(exec 3<>/dev/tcp/8.8.8.8/443) 2>/dev/null && echo reached',
    `(exec 3<>/dev/udp/8.8.8.8/53 && echo x >&3) 2>/dev/null && echo reached`,
    'unshare -n true 2>/dev/null && echo unshared; ip link add x type dummy 2>/dev/null && echo added',
    'ls -l /proc/self/fd | grep -c -e socket -e net: -e user:',
    'cat /proc/self/status | grep -E "^(NoNewPrivs|CapEff|CapBnd)"',
  ]
  const { output, log } = await place.run(script.join('\n'))
  assert.match(output, /^lo\n0\nCapEff:\t0+\nCapBnd:\t0+\nNoNewPrivs:\t1\n$/)
  assert.deepEqual(log, [])
})

test('inner addresses are refused in every spelling', options, async () => {
  await using hosts = await serveHosts()
  await using place = await openPlace([`*:${hosts.http}`], [])
  const spellings = [
    ...['127.0.0.1', '2130706433', '0x7f000001', '0177.1', '0.0.0.0', 'localhost', 'LOCALHOST.'],
    ...['[::1]', '[::ffff:127.0.0.1]', '[::ffff:7f00:1]', '[::]', '169.254.169.254', '10.0.0.1'],
  ]
  const { port } = { port: hosts.http }
  // Raw requests, because curl normalizes addresses.
  const script = spellings.flatMap((host) => [
    `exec 3<>/dev/tcp/127.0.0.1/3128; printf 'GET http://${host}:${port}/ HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n' >&3; head -n 1 <&3`,
    `exec 3<>/dev/tcp/127.0.0.1/3128; printf 'CONNECT ${host}:${port} HTTP/1.1\\r\\n\\r\\n' >&3; head -n 1 <&3`,
  ])
  const { output, log } = await place.run(script.join('\n'))
  assert.deepEqual(
    new Set(output.split('\r\n').map((line) => line.trim())),
    new Set(['HTTP/1.1 403 Forbidden', '']),
  )
  assert.equal(log.length, spellings.length * 2)
  assert.equal(hosts.requests(), 0)
})

test('a step cannot use the proxy of another job', options, async () => {
  await using hosts = await serveHosts()
  await using place = await openPlace([`localhost:${hosts.http}`])
  await using other = await place.openOther([])
  const holding = place.run('touch /svc/started; until test -e /svc/go; do sleep 0.01; done')
  await until(async () => (await readdir(place.files)).includes('started'))
  const request = `curl -sS -o /dev/null -w '%{http_code}\\n' http://localhost:${hosts.http}/`
  const { output, log } = await other.run(request, { NO_PROXY: '', no_proxy: '' })
  assert.equal(output, '403\n')
  assert.equal(log.length, 1)
  await place.write('../files/go', '')
  assert.deepEqual((await holding).log, [])
})

test('connections end with their step, and background processes keep none', options, async () => {
  const sockets = new Set<Socket>()
  await using hold = createServer((socket) => {
    sockets.add(socket)
    // Without a reader, the end of a connection goes unnoticed.
    socket.resume()
    socket.on('error', () => {}).on('close', () => sockets.delete(socket))
  })
  const port = await listen(hold)
  await using place = await openPlace([`localhost:${port}`])
  const tunnel = `curl -sS -N --proxytunnel http://localhost:${port}/`
  const script = `(setsid ${tunnel} &) ; until test -e /svc/go; do sleep 0.01; done`
  const step = place.run(script, { NO_PROXY: '', no_proxy: '' })
  await until(() => sockets.size === 1)
  await place.write('../files/go', '')
  assert.equal((await step).exitCode, 0)
  await until(() => sockets.size === 0)
  const stop = new AbortController()
  const cancelled = place.run(tunnel, { NO_PROXY: '', no_proxy: '' }, stop.signal)
  await until(() => sockets.size === 1)
  stop.abort()
  assert.equal((await cancelled).reason, 'cancelled')
  await until(() => sockets.size === 0)
})

test('a job leaves no process, descriptor or file of its network behind', {
  ...exhaustive,
  ...options,
}, async () => {
  await using place = await openPlace(['*'])
  const descriptors = async () => (await readdir('/proc/self/fd')).length
  const rounds = async (count: number) => {
    for (let round = 0; round < count; round++) {
      await using other = await place.openOther(['*'])
      await other.run('true')
    }
    // One namespace is kept ready.
    await sleep(500)
  }
  await rounds(2)
  const before = await descriptors()
  await rounds(5)
  await until(async () => (await descriptors()) <= before + 1)
})

test(
  'all of this holds for an ordinary user',
  { ...exhaustive, ...options, skip: options.skip || (await withoutUnprivilegedUser(file)) },
  () => testAsUnprivilegedUser(file),
)

/** A sandbox whose steps may reach hosts; loopback addresses are allowed for tests. */
async function openPlace(hosts: string[], words = ['loopback']) {
  const listed = parseListedHosts([...hosts, ...words].join())
  assert.ok(listed)
  const sandbox = await openTestSandbox({ hosts: listed })
  assert.equal(sandbox.sandbox.isolation.network, 'hosts', sandbox.sandbox.isolation.description)
  return {
    ...toPlace(sandbox.workspace, listed.rules),
    async openOther(texts: string[]) {
      const rules = texts.length > 0 ? (parseListedHosts(texts.join())?.rules ?? []) : []
      const workspace = await sandbox.sandbox.openWorkspace()
      return {
        ...toPlace(workspace, rules),
        [Symbol.asyncDispose]: () => workspace[Symbol.asyncDispose](),
      }
    },
    [Symbol.asyncDispose]: () => sandbox[Symbol.asyncDispose](),
  }
}

function toPlace(
  workspace: Workspace,
  rules: NonNullable<ReturnType<typeof parseListedHosts>>['rules'],
) {
  const variables = { HTTP_PROXY: proxyUrl, HTTPS_PROXY: proxyUrl, NO_PROXY: 'localhost,127.0.0.1' }
  const lower = Object.entries(variables).map(([name, value]) => [name.toLowerCase(), value])
  return {
    files: workspace.outside.files,
    write: (name: string, text: string) =>
      writeFile(join(workspace.outside.workspace, name), text, { mode: 0o644 }),
    async run(script: string, env: Record<string, string> = {}, signal?: AbortSignal) {
      const log: string[] = []
      const end = await runScript(workspace, script, {
        env: {
          ...{ PATH: '/usr/bin:/bin', HOME: workspace.inside.home },
          ...{ ...variables, ...Object.fromEntries(lower) },
          ...env,
        },
        network: { rules, log: async (line) => void log.push(line) },
        ...(signal && { signal }),
      })
      return { ...end, log }
    },
  }
}

/** Servers on the loopback of this machine. */
async function serveHosts(answer: RequestListener = respond) {
  await using stack = new AsyncDisposableStack()
  await using folder = await temporaryFolder()
  const authority = await createAuthority(folder.path)
  const certificate = await authority.issue('localhost')
  const authorityText = await readFile(authority.path, 'utf8')
  let requests = 0
  const counted: RequestListener = (request, response) => {
    requests += 1
    answer(request, response)
  }
  const servers = {
    http: createHttpServer(counted),
    https: createHttpsServer(certificate, counted),
    other: createHttpServer(counted),
  }
  const ports = { http: 0, https: 0, other: 0 }
  for (const name of ['http', 'https', 'other'] as const) {
    ports[name] = await listen(servers[name])
    stack.defer(() => {
      servers[name].close()
      servers[name].closeAllConnections()
    })
  }
  const owned = stack.move()
  return {
    ...ports,
    authority: authorityText,
    requests: () => requests,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

function respond(...[request, response]: Parameters<RequestListener>): void {
  const chunks: Buffer[] = []
  request.on('data', (chunk: Buffer) => chunks.push(chunk))
  request.on('end', () =>
    response.end(`${request.method} ${request.url} ${Buffer.concat(chunks)}\n`),
  )
}

async function listen(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  // A TCP server's address is neither null nor a path once it listens.
  return (server.address() as AddressInfo).port
}
