// Tags: exhaustive
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { chmod, mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { promisify } from 'node:util'
import { until } from '../support/condition.ts'
import { createPostgresDatabase } from '../support/databases.ts'
import { createProject, git, temporaryFolder } from '../support/git.ts'
import { packInto, root, unpack } from '../support/packed.ts'
import { without } from '../support/programs.ts'
import { type Client, createClient } from '../support/service.ts'
import { startSystemd, withoutNamespaces } from '../support/systemd.ts'
import { logOf, oneStep, pushFiles, runToEnd } from '../support/workflow-site.ts'

const execute = promisify(execFile)
const read = (name: string) => readFile(join(root, 'deploy', name), 'utf8')
const [unit, withoutRunner, sysusers] = await Promise.all(
  ['svc.service', 'without-runner.conf', 'sysusers.conf'].map(read),
)

test('the drop-in without a runner repeats nothing: it would override the drop-ins before it', () => {
  const settingsOf = (text: unknown) => String(text).match(/^\w+=.*$/gm) ?? []
  const ofUnit = new Set(settingsOf(unit))
  const repeated = settingsOf(withoutRunner).filter((setting) => ofUnit.has(setting))
  assert.deepEqual(repeated, [])
})

describe('the systemd unit', { skip: without('systemd') }, () => {
  // In tenths: the overall exposure of systemd-analyze security goes from 0 to 10, and below 5 it says OK.
  for (const [name, dropIns, threshold] of [
    ['with a runner', {}, 28],
    ['without a runner', { 'svc.service.d/without-runner.conf': withoutRunner }, 15],
  ] as const) {
    test(`has no mistakes, and an exposure of at most ${threshold / 10} ${name}`, async () => {
      await using folder = await temporaryFolder()
      const path = join(folder.path, 'svc.service')
      // The program is installed elsewhere.
      await writeFile(path, String(unit).replaceAll('/usr/local/bin/svc', '/bin/true'))
      await mkdir(join(folder.path, 'svc.service.d'))
      for (const [dropIn, text] of Object.entries(dropIns))
        await writeFile(join(folder.path, dropIn), String(text))
      const verified = await execute('systemd-analyze', ['verify', '--man=no', path])
      assert.equal(verified.stdout + verified.stderr, '')
      const security = ['security', '--offline=true', '--no-pager']
      await execute('systemd-analyze', [...security, `--threshold=${threshold}`, path])
    })
  }

  describe('under a real systemd', { skip: withoutNamespaces() }, () => {
    let folder: Awaited<ReturnType<typeof temporaryFolder>>
    let packagePath = ''

    before(async () => {
      folder = await temporaryFolder()
      // Another user reads the package.
      await chmod(folder.path, 0o755)
      packagePath = await unpack((await packInto(folder.path)).archive)
    })
    after(() => folder[Symbol.asyncDispose]())

    /** Starts the unit with more settings, in a systemd of its own. */
    async function startUnit(
      settings: string,
      dropIns: Record<string, string> = {},
      environment = '',
    ) {
      const ours = `[Service]
ExecStart=
ExecStart=/opt/svc/bin/svc serve
Environment=SVC_PORT=0 SVC_SSH_PORT=off SVC_FREE_SPACE_MIN=0
StandardOutput=append:/run/svc.out
StandardError=append:/run/svc.log
${settings}
`
      const systemd = await startSystemd({
        units: { 'svc.service': String(unit), 'svc.service.d/a.conf': ours, ...dropIns },
        sysusers: String(sysusers),
        packagePath,
      })
      const show = async (property: string) =>
        (await systemd.run('systemctl', 'show', '--value', '-p', property, 'svc.service')).trim()
      const write = 'mkdir -p /etc/svc; umask 077; printf "%s" "$1" > /etc/svc/svc.env'
      await systemd.run('sh', '-c', write, 'sh', environment)
      await systemd.run('systemctl', 'start', 'svc.service')
      return {
        ...systemd,
        show,
        log: () => systemd.read('/run/svc.log'),
        /** Waits until it listens for the given number of times; its client as the first admin. */
        async listening(times = 1): Promise<Client> {
          const lines = await until('the unit listens', async () => {
            const out = systemd.read('/run/svc.out').split('\n').slice(0, -1)
            if ((await show('ActiveState')) === 'failed')
              throw new Error(systemd.read('/run/svc.log'))
            return out.length >= times && out
          })
          const { http } = JSON.parse(lines.at(-1) ?? '')
          return createClient(http, systemd.read('/var/lib/svc/admin-token').trim())
        },
        /** Runs a command of svc as the user of the service. */
        svc: (...args: string[]) =>
          systemd.run(
            ...(['runuser', '-u', 'svc', '--', 'env', 'SVC_DATA_DIR=/var/lib/svc'] as const),
            ...['/opt/svc/bin/svc', ...args],
          ),
      }
    }

    test('it serves, runs workflows in the sandbox, restarts after a crash, and stops', async () => {
      await using service = await startUnit('Environment=SVC_SANDBOX=require')
      const admin = await service.listening()
      await pushFiles(admin, 'jobs', oneStep('id -un; test ! -e /var/lib/svc; echo it runs'))
      const ran = await runToEnd(admin, 'jobs')
      assert.equal(ran.conclusion, 'success', ran.fault)
      assert.match(ran.isolation, /^bubblewrap: /)
      assert.match(await logOf(admin, 'jobs', ran.id), /^runner\nit runs$/m)
      assert.match(await service.svc('repos', 'list'), /^jobs /m)
      const mode = await service.run('stat', '-Lc', '%a %U', '/var/lib/svc')
      assert.equal(mode, '700 svc\n')

      await service.run('systemctl', 'kill', '--kill-whom=main', '--signal=KILL', 'svc.service')
      const again = await service.listening(2)
      assert.equal((await again.get('/repos/jobs')).status, 200)
      assert.equal(await service.show('NRestarts'), '1')
      await service.run('systemctl', 'stop', 'svc.service')
      assert.equal(await service.show('Result'), 'success')
      assert.match(service.log(), /"signal":"SIGTERM"/)
    })

    test('without a runner, it serves Git and maintains repositories', async () => {
      await using service = await startUnit('', { 'svc.service.d/b.conf': String(withoutRunner) })
      const admin = await service.listening()
      await using project = await createProject()
      await admin.post('/repos', { name: 'site' })
      await project.git('push', '--quiet', admin.remote('site'), 'main')
      await service.svc('repos', 'maintain', '--full', 'site')
      await git(project.path, ['clone', '--quiet', admin.remote('site'), 'clone'])
      assert.deepEqual(await readFile(join(project.path, 'clone/readme.txt'), 'utf8'), 'readme.txt')
      const imported = await admin.post('/repos/import', { source: '/nowhere', name: 'copy' })
      assert.equal(imported.status, 422)
      assert.doesNotMatch(service.log(), /"level":"(warn|error)"/)
    })

    test('the sandbox works beside the capability for a low port', async () => {
      const capability = 'CAP_NET_BIND_SERVICE'
      await using service = await startUnit(
        `PrivateUsers=no\nAmbientCapabilities=${capability}\nCapabilityBoundingSet=${capability}`,
      )
      const admin = await service.listening()
      const status = await service.run('cat', `/proc/${await service.show('MainPID')}/status`)
      assert.match(status, /^CapEff:\t0000000000000400$/m)
      await pushFiles(admin, 'jobs', oneStep('grep ^Cap /proc/self/status'))
      const ran = await runToEnd(admin, 'jobs')
      assert.match(ran.isolation, /^bubblewrap: /)
      assert.match(await logOf(admin, 'jobs', ran.id), /^CapPrm:\t0+$/m)
    })

    test('a command gets the settings of the unit as the documentation says', {
      skip: without('postgres') || without('dbus'),
    }, async () => {
      const { url, drop } = await createPostgresDatabase()
      await using _dropped = { [Symbol.asyncDispose]: drop }
      // A shell would run the first part of this in the background.
      const environment = `SVC_DATABASE_URL=${url}?application_name=svc&keepalives=1\n`
      const bus: Record<string, string> = {}
      for (const name of ['dbus.service', 'dbus.socket'])
        bus[name] = await readFile(join('/lib/systemd/system', name), 'utf8')
      await using service = await startUnit('', bus, environment)
      const admin = await service.listening()
      const page = await readFile(join(root, 'docs/operating.md'), 'utf8')
      const [command = ''] = /^systemd-run .*\\\n.* svc tokens list$/m.exec(page) ?? []
      assert.notEqual(command, '')
      await service.run('systemctl', 'start', 'dbus.socket')
      const runDocumented = (words: string) =>
        service.run('sh', '-c', command.replace(/ svc tokens list$/, ` /opt/svc/bin/svc ${words}`))
      const token = JSON.parse(await runDocumented('tokens create --json --permission repo:read'))
      const { status } = await createClient(admin.url, token.token).get('/repos')
      assert.equal(status, 200)
      await assert.rejects(service.svc('tokens', 'list'), /they do not belong together/)
      await assert.rejects(service.run('test', '-e', '/var/lib/svc/svc.db'))
    })

    test('an invalid setting is not tried again and again', async () => {
      await using service = await startUnit('Environment=SVC_PORT=x')
      await until('it has failed', async () => (await service.show('ActiveState')) === 'failed')
      assert.equal(await service.show('NRestarts'), '0')
      assert.match(service.log(), /^svc: SVC_PORT/m)
    })
  })
})
