import { createHash, randomBytes } from 'node:crypto'
import { mkdir, mkdtemp, open, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { freePort } from '../test/support/free-port.ts'
import { confineServer, serverCoreCount } from './isolation.ts'
import { type Effort, interleave, median } from './measure.ts'
import { installPeer } from './peers.ts'
import { print } from './print.ts'
import { run, start, untilListening } from './processes.ts'
import { type Medians, mapServers, type PerServer, type Row, timeRow } from './rows.ts'
import { startSvc } from './svc.ts'
import type { Workspace } from './workspace.ts'

const mib = 1024 * 1024
const objectBytes = 1024 * mib

/** A server with a file, whose address takes a PUT and a GET. */
type FileServer = {
  address: string
  token?: string
  /** The file behind the address, if an upload does not sync it. */
  file?: string
  cpuMs: () => number
}

/** Compares an upload and a download of a Git LFS object with those of a file of nginx. */
export async function measureLfs(
  workspace: Workspace,
  { transfers: rounds, seconds }: { transfers: number; seconds: number },
): Promise<Row[]> {
  const effort = { rounds, seconds }
  const { path, sha256 } = await makeFile(workspace)
  print('Starting nginx with WebDAV, and svc')
  await using nginx = await startNginx(workspace)
  await using svc = await startSvc({ dataDir: join(workspace.folder, 'data-lfs') })
  await svc.host.create('large')
  const servers: PerServer<FileServer> = {
    svc: {
      address: `${svc.url}/repos/large.git/info/lfs/objects/${sha256}`,
      token: svc.adminToken,
      cpuMs: svc.cpuMs,
    },
    peer: nginx,
  }
  const curl = (server: FileServer, ...args: string[]) => transfer(workspace, server, args)

  const uploads = await compareTransfers('upload of 1 GiB', servers, effort, async (server) => {
    const uploaded = await curl(server, '-T', path)
    // svc syncs before it responds.
    const { file } = server
    return file === undefined ? uploaded : uploaded + (await sync(workspace, file))
  })
  const downloads = await compareTransfers('download of 1 GiB', servers, effort, (server) =>
    curl(server, '-o', '/dev/null'),
  )
  await svc.stop()
  await rm(path)
  return [
    timeRow('lfs: upload of 1 GiB', uploads.elapsed),
    timeRow('lfs: upload of 1 GiB, CPU time', uploads.cpu),
    timeRow('lfs: download of 1 GiB', downloads.elapsed),
    timeRow('lfs: download of 1 GiB, CPU time', downloads.cpu),
  ]
}

async function makeFile({ folder }: Workspace) {
  const path = join(folder, 'large.bin')
  const block = randomBytes(mib)
  const hash = createHash('sha256')
  await using file = await open(path, 'wx')
  for (let written = 0; written < objectBytes; written += block.length) {
    hash.update(block)
    await file.write(block)
  }
  return { path, sha256: hash.digest('hex') }
}

async function transfer(
  { env, signal }: Workspace,
  { address, token }: FileServer,
  args: string[],
): Promise<number> {
  const credentials = token === undefined ? [] : ['-H', `Authorization: Bearer ${token}`]
  const options = ['--silent', '--show-error', '--fail', ...credentials, ...args, address]
  return (await run('curl', options, { env, signal })).elapsedMs
}

async function sync({ env, signal }: Workspace, path: string): Promise<number> {
  return (await run('sync', [path], { env, signal })).elapsedMs
}

async function compareTransfers(
  title: string,
  servers: PerServer<FileServer>,
  effort: Effort,
  perform: (server: FileServer) => Promise<number>,
): Promise<{ elapsed: Medians; cpu: Medians }> {
  print(`Measuring: ${title}`)
  const contestants = mapServers(servers, (server) => async () => {
    const before = server.cpuMs()
    const elapsed = await perform(server)
    return { elapsed, cpu: server.cpuMs() - before }
  })
  const { samples, rounds } = await interleave(contestants, effort)
  const mediansOf = (measure: 'elapsed' | 'cpu') => ({
    values: mapServers(samples, (all) => median(all.map((sample) => sample[measure]))),
    rounds,
  })
  return { elapsed: mediansOf('elapsed'), cpu: mediansOf('cpu') }
}

/** Debian's nginx, which stores what is sent to it: https://nginx.org/en/docs/http/ngx_http_dav_module.html */
async function startNginx({ folder: workspaceFolder, env, signal }: Workspace) {
  await using starting = new AsyncDisposableStack()
  const { nginx } = await installPeer('http')
  const folder = await mkdtemp(join(workspaceFolder, 'files-'))
  await mkdir(join(folder, 'files'))
  const config = join(folder, 'nginx.conf')
  const port = await freePort()
  await writeFile(config, nginxConfig(folder, port))
  const { prefix, cpuMs } = starting.use(confineServer())
  const words = [...prefix, nginx, '-p', folder, '-c', config, '-e', 'stderr']
  const server = starting.use(start(words, env))
  await Promise.race([untilListening([{ host: '127.0.0.1', port }], signal), server.failed])
  const running = starting.move()
  return {
    address: `http://127.0.0.1:${port}/large`,
    file: join(folder, 'files/large'),
    cpuMs,
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}

function nginxConfig(folder: string, port: number): string {
  const user = process.getuid?.() === 0 ? 'user root;' : ''
  const unused = ['fastcgi', 'proxy', 'scgi', 'uwsgi']
  return `${user}
daemon off;
worker_processes ${serverCoreCount};
pid ${folder}/nginx.pid;
error_log stderr warn;
events { worker_connections 512; }
http {
  access_log off;
  sendfile on;
  client_max_body_size 0;
  client_body_temp_path ${folder}/bodies;
  ${unused.map((kind) => `${kind}_temp_path ${folder}/unused;`).join('\n  ')}
  server {
    listen 127.0.0.1:${port};
    root ${folder}/files;
    dav_methods PUT;
  }
}
`
}
