import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, open, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { AwsClient } from 'aws4fetch'
import { freePort } from './free-port.ts'

const execute = promisify(execFile)

export type Ceph = {
  /** The address of its bucket, in the form of SVC_TEST_S3. */
  url: string
  /** The processes that hold the objects. With two and more, each object is stored twice. */
  osds: ChildProcess[]
  /** Ends it and removes its data. */
  stop: () => Promise<void>
}

const user = { accessKeyId: 'svc-test', secretAccessKey: 'not-a-secret' }
const bucket = 'svc-test'
const maxStartMs = 60_000

/**
 * Starts a Ceph of its own on free loopback ports: a monitor, OSDs and the S3 gateway. Objects are kept in memory,
 * so it starts in about a second and never waits for the disk; an OSD that ends loses its copies.
 */
export async function startCeph({ osds: count = 1 } = {}): Promise<Ceph> {
  const folder = await mkdtemp(join(tmpdir(), 'svc-ceph-'))
  const ports = { monitor: await freePort(), gateway: await freePort() }
  const started: ChildProcess[] = []
  const start = async (program: string, args: string[]) => {
    const child = await startDaemon(folder, program, args)
    started.push(child)
    return child
  }
  const stop = async () => {
    await Promise.all(started.map(kill))
    await rm(folder, { recursive: true, force: true })
  }
  try {
    const run = await prepare(folder, ports, count)
    await start('ceph-mon', ['-i', 'a'])
    const osds: ChildProcess[] = []
    for (let id = 0; id < count; id++) {
      const uuid = crypto.randomUUID()
      await run('ceph', ['osd', 'new', uuid, String(id)])
      await run('ceph-osd', ['-i', String(id), '--mkfs', '--osd-uuid', uuid])
      osds.push(await start('ceph-osd', ['-i', String(id)]))
    }
    const gateway = await start('radosgw', ['-n', 'client.gateway'])
    const endpoint = `http://127.0.0.1:${ports.gateway}`
    await untilAnswering(endpoint, gateway, folder)
    const keys = ['--access-key', user.accessKeyId, '--secret-key', user.secretAccessKey]
    const create = ['user', 'create', '--uid=svc', '--display-name=svc', ...keys]
    await run('radosgw-admin', ['-n', 'client.gateway', ...create])
    await createBucket(endpoint)
    const { accessKeyId, secretAccessKey } = user
    const url = `s3://${accessKeyId}:${secretAccessKey}@${bucket}?endpoint=${endpoint}`
    return { url, osds, stop }
  } catch (error) {
    await stop()
    throw error
  }
}

type Ports = { monitor: number; gateway: number }

/** Writes the configuration and the monitor's data; returns what runs further programs with that configuration. */
async function prepare(folder: string, { monitor, gateway }: Ports, osds: number) {
  const id = crypto.randomUUID()
  const run = (program: string, args: string[]) =>
    execute(program, args, { env: environment(folder) })
  for (const name of ['mon', 'log', 'gateway']) await mkdir(join(folder, name))
  for (let osd = 0; osd < osds; osd++) await mkdir(join(folder, `osd${osd}`))
  await writeFile(join(folder, 'ceph.conf'), configuration(folder, { id, monitor, gateway, osds }))
  const { stdout: key } = await execute('ceph-authtool', ['--gen-print-key'])
  await writeFile(join(folder, 'keyring'), keyring(key.trim(), osds), { mode: 0o600 })
  const map = join(folder, 'monmap')
  const address = `[v2:127.0.0.1:${monitor}]`
  await run('monmaptool', ['--create', '--addv', 'a', address, '--fsid', id, map])
  // Keys that the monitor's store is made with need no command each later.
  const store = ['--monmap', map, '--keyring', join(folder, 'keyring')]
  await run('ceph-mon', ['-i', 'a', '--mkfs', ...store])
  return run
}

type Layout = Ports & { id: string; osds: number }

// All paths are within the folder, so that any user may start it. The short intervals of Paxos and of heartbeats are for
// a quick start and for the quick end of an OSD.
function configuration(folder: string, { id, monitor, gateway, osds }: Layout): string {
  return `
[global]
fsid = ${id}
mon_host = [v2:127.0.0.1:${monitor}/0]
mon_initial_members = a
public_addr = 127.0.0.1
cluster_addr = 127.0.0.1
ms_bind_ipv6 = false
ms_bind_msgr1 = false
keyring = ${folder}/keyring
run_dir = ${folder}
admin_socket = ""
log_file = ${folder}/log/$name.log
mon_cluster_log_file = /dev/null
crash_dir = ${folder}/log
osd_pool_default_size = ${Math.min(osds, 2)}
osd_pool_default_min_size = 1
osd_pool_default_pg_num = ${osds}
osd_pool_default_pgp_num = ${osds}
osd_pool_default_pg_autoscale_mode = off
osd_crush_chooseleaf_type = 0
mon_allow_pool_size_one = true
osd_class_load_list = *
osd_class_default_list = *
paxos_propose_interval = 0.02
paxos_min_wait = 0.01
osd_heartbeat_grace = 3
[mon]
mon_data = ${folder}/mon
mon_data_avail_crit = 1
mon_osd_min_down_reporters = 1
mon_osd_adjust_heartbeat_grace = false
auth_allow_insecure_global_id_reclaim = false
[osd]
osd_data = ${folder}/osd$id
osd_objectstore = memstore
memstore_device_bytes = 4294967296
osd_heartbeat_interval = 1
[client.gateway]
rgw_data = ${folder}/gateway
rgw_frontends = beast endpoint=127.0.0.1:${gateway} tcp_nodelay=1
rgw_thread_pool_size = 32
rgw_override_bucket_index_max_shards = 1
rgw_gc_obj_min_wait = 5
rgw_gc_processor_period = 5
`
}

function keyring(key: string, osds: number): string {
  const users: [string, Record<string, string>][] = [
    ['mon.', { mon: 'allow *' }],
    ['client.admin', { mon: 'allow *', osd: 'allow *', mgr: 'allow *' }],
    ['client.gateway', { mon: 'allow rw', osd: 'allow rwx' }],
  ]
  for (let osd = 0; osd < osds; osd++) {
    users.push([`osd.${osd}`, { mon: 'allow profile osd', osd: 'allow *' }])
  }
  return users
    .map(([name, rights]) => {
      const lines = Object.entries(rights).map(([part, right]) => `caps ${part} = "${right}"\n`)
      return `[${name}]\nkey = ${key}\n${lines.join('')}`
    })
    .join('')
}

/** Starts a program that ends with this process, even when this one is killed. */
async function startDaemon(folder: string, program: string, args: string[]): Promise<ChildProcess> {
  await using output = await open(join(folder, 'log', `${program}.out`), 'a')
  const child = spawn('setpriv', ['--pdeathsig', 'KILL', program, '-f', ...args], {
    env: environment(folder),
    stdio: ['ignore', output.fd, output.fd],
    cwd: '/',
  })
  await once(child, 'spawn')
  return child
}

function environment(folder: string): NodeJS.ProcessEnv {
  return { PATH: process.env.PATH, CEPH_CONF: join(folder, 'ceph.conf') }
}

async function untilAnswering(url: string, child: ChildProcess, folder: string): Promise<void> {
  const giveUpAt = performance.now() + maxStartMs
  while (
    !(await fetch(url).then(
      (response) => response.ok,
      () => false,
    ))
  ) {
    if (child.exitCode === null && performance.now() < giveUpAt) {
      await sleep(50)
      continue
    }
    const log = await readFile(join(folder, 'log/radosgw.out'), 'utf8')
    throw new Error(`Ceph did not start:\n${log.slice(-4000)}`)
  }
}

async function createBucket(endpoint: string): Promise<void> {
  const client = new AwsClient({ ...user, service: 's3', region: 'us-east-1' })
  const response = await client.fetch(`${endpoint}/${bucket}`, { method: 'PUT' })
  if (!response.ok) throw new Error(`The bucket was not created: ${await response.text()}`)
}

// Its data goes with it, so it need not end in order.
async function kill(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const exited = once(child, 'exit')
  child.kill('SIGKILL')
  await exited
}
