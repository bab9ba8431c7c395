import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { join } from 'node:path'
import { createAuthority } from './certificates.ts'
import { until } from './condition.ts'
import { freePort } from './free-port.ts'
import { temporaryFolder } from './git.ts'
import { root } from './packed.ts'
import { programs } from './programs.ts'

export type ProxyName = 'nginx' | 'caddy'

type Wanted = {
  /** Where the service listens. */
  upstream: number
  port: number
  redirectPort: number
  folder: string
}

/** Starts a proxy with its example of deploy/, changed in nothing but addresses, names and files. */
export async function startProxy(name: ProxyName, upstream: number) {
  await using stack = new AsyncDisposableStack()
  const { path: folder } = stack.use(await temporaryFolder())
  const authority = await createAuthority(folder)
  const { key, cert } = await authority.issue('localhost')
  await writeFile(join(folder, 'site.key'), key)
  await writeFile(join(folder, 'site.pem'), cert)
  const [port, redirectPort] = [await freePort(), await freePort()]
  const wanted = { upstream, port, redirectPort, folder }
  const child = await (name === 'nginx' ? spawnNginx(wanted) : spawnCaddy(wanted))
  let log = ''
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    log += text
  })
  const ended = once(child, 'exit')
  stack.defer(async () => {
    child.kill('SIGTERM')
    await ended
  })
  await until(`${name} listens`, async () => {
    if (child.exitCode !== null) throw new Error(`${name} ended: ${log}`)
    return isListening(port)
  })
  // Without these folders, nginx cannot buffer anything on the disk: it would respond with 500.
  if (name === 'nginx') await rm(join(folder, 'buffers'), { recursive: true })
  const held = stack.move()
  return {
    port,
    redirectPort,
    url: `https://localhost:${port}`,
    /** The file of the authority by which it is trusted. */
    authority: authority.path,
    log: () => log,
    [Symbol.asyncDispose]: () => held.disposeAsync(),
  }
}

/** Writes the configuration of nginx; the path. */
async function writeNginx(wanted: Wanted): Promise<string> {
  const { upstream, port, redirectPort, folder } = wanted
  const site = replaceEach(await readFile(join(root, 'deploy/nginx.conf'), 'utf8'), [
    ['127.0.0.1:8080', `127.0.0.1:${upstream}`],
    ['listen 80;', `listen 127.0.0.1:${redirectPort};`],
    ['listen [::]:80;', ''],
    ['listen 443 ssl;', `listen 127.0.0.1:${port} ssl;`],
    ['listen [::]:443 ssl;', ''],
    ['server_name git.example.com;', 'server_name localhost;'],
    ['/etc/ssl/git.example.com', join(folder, 'site')],
  ])
  const buffers = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (kind) => `${kind}_temp_path ${folder}/buffers/${kind};`,
  )
  const path = join(folder, 'nginx.conf')
  await writeFile(join(folder, 'site.conf'), site)
  await writeFile(
    path,
    `daemon off;
error_log stderr;
pid ${folder}/nginx.pid;
events {}
http {
  access_log off;
  ${buffers.join('\n  ')}
  include ${folder}/site.conf;
}
`,
  )
  return path
}

async function spawnNginx(wanted: Wanted): Promise<ChildProcess> {
  const path = await writeNginx(wanted)
  await mkdir(join(wanted.folder, 'buffers'))
  return spawn(programs.nginx.find() ?? 'nginx', ['-c', path, '-e', 'stderr'], { stdio: 'pipe' })
}

async function spawnCaddy({ upstream, port, folder }: Wanted): Promise<ChildProcess> {
  const site = replaceEach(await readFile(join(root, 'deploy/Caddyfile'), 'utf8'), [
    ['127.0.0.1:8080', `127.0.0.1:${upstream}`],
    [
      'git.example.com {',
      `https://localhost:${port} {\n\tbind 127.0.0.1\n\ttls ${folder}/site.pem ${folder}/site.key`,
    ],
  ])
  const path = join(folder, 'Caddyfile')
  await writeFile(path, `{\n\tadmin off\n\tauto_https off\n}\n${site}`)
  const env = { PATH: process.env.PATH, HOME: folder }
  return spawn('caddy', ['run', '--config', path], { env, stdio: 'pipe' })
}

function replaceEach(text: string, pairs: [string, string][]): string {
  return pairs.reduce((changed, [from, to]) => {
    if (!changed.includes(from)) throw new Error(`The example has no ${from}`)
    return changed.replaceAll(from, to)
  }, text)
}

async function isListening(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1')
  try {
    await once(socket, 'connect')
    return true
  } catch {
    return false
  } finally {
    socket.destroy()
  }
}
