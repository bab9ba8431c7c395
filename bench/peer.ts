import { mkdir, rm, writeFile } from 'node:fs/promises'
import { connect, createServer, type NetConnectOpts } from 'node:net'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import type { Host } from './host.ts'
import { installPeer } from './peer-programs.ts'
import { start } from './program.ts'
import type { Workspace } from './workspace.ts'

const workers = 8
const startsWithinMs = 5000
const lookEveryMs = 20

// What svc always does, said in git's words: nothing is acknowledged that is not on the disk or is not
// a sound object, and no request waits for housekeeping.
const asDurableAsSvc = {
  'core.fsync': 'all',
  'receive.unpackLimit': '1',
  'transfer.fsckObjects': 'true',
  'receive.autogc': 'false',
}

/**
 * `git http-backend` behind Debian's nginx with fcgiwrap (git-http-backend(1), "nginx"), on a loopback
 * port of its own. One server, two hosts: repositories as durable as those of svc, and git's defaults.
 */
export async function startPeer(workspace: Workspace) {
  const { signal } = workspace
  await using starting = new AsyncDisposableStack()
  const programs = await installPeer()
  const folder = join(workspace.folder, 'peer')
  const socket = join(folder, 'fcgiwrap.socket')
  const config = join(folder, 'nginx.conf')
  const port = await freePort()
  await mkdir(folder)
  const { output: gitPrograms } = await workspace.git(['--exec-path'])
  await writeFile(config, nginxConfig({ folder, socket, port, gitPrograms }))
  const { env } = workspace
  const fcgiwrap = starting.use(
    start(programs.fcgiwrap, ['-c', String(workers), '-s', `unix:${socket}`], env),
  )
  const nginx = starting.use(
    start(programs.nginx, ['-p', folder, '-c', config, '-e', 'stderr'], env),
  )
  const url = `http://127.0.0.1:${port}`
  await Promise.race([untilListening(socket, port, signal), fcgiwrap.failed, nginx.failed])

  const running = starting.move()
  return {
    durable: createHost({ workspace, url, root: join(folder, 'durable'), config: asDurableAsSvc }),
    defaults: createHost({ workspace, url, root: join(folder, 'defaults'), config: {} }),
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}

type HostOptions = {
  workspace: Workspace
  url: string
  root: string
  config: Record<string, string>
}

function createHost({ workspace, url, root, config }: HostOptions): Host {
  const pathOf = (name: string) => join(root, `${name}.git`)
  return {
    async create(name) {
      const path = pathOf(name)
      await workspace.git(['init', '--quiet', '--bare', '--initial-branch=main', path])
      for (const [key, value] of Object.entries({ 'http.receivepack': 'true', ...config })) {
        await workspace.git(['-C', path, 'config', key, value])
      }
      return `${url}/${root.split('/').at(-1)}/${name}.git`
    },
    remove: (name) => rm(pathOf(name), { recursive: true }),
  }
}

type Places = { folder: string; socket: string; port: number; gitPrograms: string }

// Requests and answers pass through unbuffered: nginx's own choice, to copy each push to a file before
// git sees any of it, is a slower one.
function nginxConfig({ folder, socket, port, gitPrograms }: Places): string {
  const user = process.getuid?.() === 0 ? 'user root;' : ''
  return `${user}
daemon off;
worker_processes ${availableParallelism()};
pid ${folder}/nginx.pid;
error_log stderr warn;
events { worker_connections 512; }
http {
  access_log off;
  gzip off;
  tcp_nodelay on;
  client_max_body_size 0;
  client_body_temp_path ${folder}/bodies;
  fastcgi_temp_path ${folder}/answers;
  proxy_temp_path ${folder}/unused;
  scgi_temp_path ${folder}/unused;
  uwsgi_temp_path ${folder}/unused;
  server {
    listen 127.0.0.1:${port};
    location / {
      fastcgi_request_buffering off;
      fastcgi_buffering off;
      fastcgi_read_timeout 600s;
      fastcgi_pass unix:${socket};
      fastcgi_param SCRIPT_FILENAME ${gitPrograms}/git-http-backend;
      fastcgi_param GIT_PROJECT_ROOT ${folder};
      fastcgi_param GIT_HTTP_EXPORT_ALL "";
      fastcgi_param GIT_PROTOCOL $http_git_protocol;
      fastcgi_param PATH_INFO $uri;
      fastcgi_param QUERY_STRING $query_string;
      fastcgi_param REQUEST_METHOD $request_method;
      fastcgi_param CONTENT_TYPE $content_type;
      fastcgi_param CONTENT_LENGTH $content_length;
      fastcgi_param REMOTE_ADDR $remote_addr;
    }
  }
}
`
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer().on('error', reject)
    server.listen(0, '127.0.0.1', () => {
      const address = server.address()
      server.close(() => resolve(typeof address === 'object' && address ? address.port : 0))
    })
  })
}

async function untilListening(socket: string, port: number, signal: AbortSignal): Promise<void> {
  const deadline = performance.now() + startsWithinMs
  while (!((await listens({ path: socket })) && (await listens({ host: '127.0.0.1', port })))) {
    if (performance.now() > deadline) throw new Error('nginx and fcgiwrap do not listen.')
    await pause(lookEveryMs, undefined, { signal })
  }
}

function listens(address: NetConnectOpts): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(address)
    socket.on('connect', () => resolve(true)).on('error', () => resolve(false))
    socket.on('connect', () => socket.destroy())
  })
}
