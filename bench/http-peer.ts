import { mkdtemp, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { freePort } from '../test/support/free-port.ts'
import { bareHosts } from './bare-host.ts'
import { serverCoreCount } from './cores.ts'
import { createEnclosure } from './enclosure.ts'
import { untilListening } from './listening.ts'
import { start } from './program.ts'
import type { Workspace } from './workspace.ts'

const workers = 8

/**
 * `git http-backend` behind Debian's nginx with fcgiwrap (git-http-backend(1), "nginx"), on its
 * own loopback port.
 */
export async function startHttpPeer(
  workspace: Workspace,
  programs: { nginx: string; fcgiwrap: string },
) {
  const { signal } = workspace
  await using starting = new AsyncDisposableStack()
  // A run of all parts starts more than one.
  const folder = await mkdtemp(join(workspace.folder, 'http-peer-'))
  const socket = join(folder, 'fcgiwrap.socket')
  const config = join(folder, 'nginx.conf')
  const port = await freePort()
  const { output: gitPrograms } = await workspace.git(['--exec-path'])
  await writeFile(config, nginxConfig({ folder, socket, port, gitPrograms }))
  const { env } = workspace
  const { prefix, cpuMs } = starting.use(createEnclosure())
  const launch = (...words: string[]) => starting.use(start([...prefix, ...words], env))
  const fcgiwrap = launch(programs.fcgiwrap, '-c', String(workers), '-s', `unix:${socket}`)
  const nginx = launch(programs.nginx, '-p', folder, '-c', config, '-e', 'stderr')
  const listening = untilListening([{ path: socket }, { host: '127.0.0.1', port }], signal)
  await Promise.race([listening, fcgiwrap.failed, nginx.failed])

  const running = starting.move()
  return {
    ...bareHosts({
      workspace,
      folder,
      address: `http://127.0.0.1:${port}`,
      config: { 'http.receivepack': 'true' },
    }),
    /** The folder of all its repositories. */
    folder,
    url: `http://127.0.0.1:${port}`,
    pids: [nginx.pid, fcgiwrap.pid],
    cpuMs,
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}

type Places = { folder: string; socket: string; port: number; gitPrograms: string }

// Unbuffered: by default nginx copies each push to a file before it reaches git, which is slower.
function nginxConfig({ folder, socket, port, gitPrograms }: Places): string {
  const user = process.getuid?.() === 0 ? 'user root;' : ''
  return `${user}
daemon off;
worker_processes ${serverCoreCount};
pid ${folder}/nginx.pid;
error_log stderr warn;
events { worker_connections 512; }
http {
  access_log off;
  gzip off;
  tcp_nodelay on;
  keepalive_requests 1000000;
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
