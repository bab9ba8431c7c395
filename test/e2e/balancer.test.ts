// Tags: exhaustive
import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import { promisify } from 'node:util'
import { createAuthority } from '../support/certificates.ts'
import { until } from '../support/condition.ts'
import { freePort } from '../support/free-port.ts'
import { createProject, temporaryFolder } from '../support/git.ts'
import { withoutObjectStore } from '../support/object-store.ts'
import { root } from '../support/packed.ts'
import { commandOf, sshProcessOf } from '../support/processes.ts'
import { programs, without } from '../support/programs.ts'
import { type Client, createClient, type Service, startService } from '../support/service.ts'
import { createSshUser, type SshUser } from '../support/ssh-user.ts'
import { startStoreSite } from '../support/store-site.ts'

const missing = (['haproxy', 'openssl', 'openssh', 'postgres'] as const).map(without)
const skip = withoutObjectStore || missing.find((reason) => reason !== false) || false

/** The configuration that docs/several-nodes.md shows, changed in nothing but addresses, files and one node. */
async function writeConfiguration(
  folder: string,
  { https, ssh, nodes }: { https: number; ssh: number; nodes: Service[] },
): Promise<string> {
  const page = await readFile(join(root, 'docs/several-nodes.md'), 'utf8')
  const [, shown = ''] = /```\n(# haproxy\.cfg\n[^`]*)```/.exec(page) ?? []
  const pairs: [string | RegExp, string][] = [
    ['bind :443 ssl crt /etc/ssl/git.pem', `bind 127.0.0.1:${https} ssl crt ${folder}/site.pem`],
    ['bind :22', `bind 127.0.0.1:${ssh}`],
    [/^ +server node-3 .*\n/gm, ''],
    ...nodes.flatMap(({ url, sshPort }, index): [string, string][] => [
      [`node-${index + 1}:8080`, new URL(url).host],
      [`node-${index + 1}:2222`, `127.0.0.1:${sshPort}`],
    ]),
  ]
  const text = pairs.reduce((changed, [from, to]) => {
    const next = changed.replace(from, to)
    assert.notEqual(next, changed, `the example has no ${from}`)
    return next
  }, shown)
  const path = join(folder, 'haproxy.cfg')
  await writeFile(path, text)
  return path
}

describe('two nodes behind HAProxy', { skip }, () => {
  const stack = new AsyncDisposableStack()
  let nodes: Service[]
  let admin: Client
  let user: SshUser
  let authority: string

  before(async () => {
    const { path: folder } = stack.use(await temporaryFolder())
    const issuer = await createAuthority(folder)
    authority = issuer.path
    const { key, cert } = await issuer.issue('localhost')
    await writeFile(join(folder, 'site.pem'), cert + key)
    const hostKey = join(folder, 'ssh_host_ed25519_key')
    await promisify(execFile)('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', hostKey])
    const [https, ssh] = [await freePort(), await freePort()]
    const common = {
      SVC_SSH_PORT: '0',
      SVC_SSH_HOST_KEY_FILE: hostKey,
      SVC_TRUSTED_PROXIES: '127.0.0.1',
      SVC_BASE_URL: `https://localhost:${https}`,
      SVC_SSH_PUBLIC_PORT: `${ssh}`,
    }
    const site = stack.use(await startStoreSite(common))
    const second = stack.use(await startService({ env: site.env }))
    nodes = [site.service, second]
    const path = await writeConfiguration(folder, { https, ssh, nodes })
    const balancer = spawn(programs.haproxy.find() ?? 'haproxy', ['-db', '-f', path], {
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const ended = once(balancer, 'exit')
    stack.defer(async () => {
      balancer.kill('SIGTERM')
      await ended
    })
    let log = ''
    for (const output of [balancer.stdout, balancer.stderr])
      output.setEncoding('utf8').on('data', (text: string) => {
        log += text
      })
    setDefaultCACertificates([...getCACertificates('default'), await readFile(authority, 'utf8')])
    admin = createClient(`https://localhost:${https}`, site.service.adminToken)
    await until('the balancer has a node', async () => {
      assert.equal(balancer.exitCode, null, log)
      return admin.get('/health').then(
        ({ status }) => status === 200,
        () => false,
      )
    })
    user = await createSshUser({ ...site.service, sshPort: ssh, dataDir: folder }, admin)
  })

  after(() => stack.disposeAsync())

  test('a repository is served by both, over HTTPS and SSH, at the addresses that they print', async () => {
    await using project = await createProject()
    await project.git('config', 'http.sslCAInfo', authority)
    const { status, body } = await admin.post('/repos', { name: 'site' })
    assert.equal(status, 201)
    const { http, ssh } = body.cloneUrls
    const remote = http.replace('://', `://git:${admin.token}@`)
    // Requests go to one node and to the other.
    for (let round = 0; round < 4; round++) {
      const tip = await project.commit(`file-${round}.txt`)
      if (round % 2 === 0) await project.git('push', '--quiet', remote, 'main')
      else await user.git(project.path, 'push', '--quiet', ssh, 'main')
      assert.match(await project.git('ls-remote', remote, 'main'), new RegExp(`^${tip}\t`))
      const { stdout } = await user.git(project.path, 'ls-remote', ssh, 'main')
      assert.match(stdout, new RegExp(`^${tip}\t`))
    }
    for (const node of nodes) {
      const { body: pushes } = await createClient(node.url, admin.token).get('/repos/site/pushes')
      assert.equal(pushes.length, 4)
    }
  })

  test('of two undos of one push at the same time, one succeeds, and the other one is refused in words', async () => {
    const clients = nodes.map(({ url }) => createClient(url, admin.token))
    await admin.post('/repos', { name: 'undone' })
    for (let round = 0; round < 5; round++) {
      const change = { path: 'file.txt', content: `${round}` }
      const commit = { branch: 'main', message: 'x', changes: [change] }
      assert.equal((await admin.post('/repos/undone/commits', commit)).status, 201)
      const [{ id }] = (await admin.get('/repos/undone/pushes?limit=1')).body
      const undo = (client: Client) => client.post(`/repos/undone/pushes/${id}/undo`)
      const answers = await Promise.all(clients.map(undo))
      const [done, refused] = answers.toSorted((one, other) => one.status - other.status)
      assert.deepEqual(
        [done?.status, refused?.status, refused?.body.code],
        [200, 409, 'push_not_undoable'],
        refused?.text ?? '',
      )
    }
  })

  test('when a node is killed, new requests are served by the other one', async () => {
    const [killed] = nodes
    assert.ok(killed !== undefined)
    const sshProcess = sshProcessOf(killed)
    await killed.end('SIGKILL')
    await until('its SSH process has noticed', () => commandOf(sshProcess) === '')
    for (let request = 0; request < 6; request++) {
      // A fresh connection each time, which the balancer gives to a node.
      const answer = await admin.get('/repos/site/pushes')
      assert.deepEqual([answer.status, answer.body.length], [200, 4], answer.text)
      const { exitCode, stderr, stdout } = await user.ssh('info site')
      assert.equal(exitCode, 0, stderr)
      assert.match(stdout, /^Name: site$/m)
    }
  })
})
