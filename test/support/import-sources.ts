import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { until } from './condition.ts'
import { freePort } from './free-port.ts'
import { createProject, git, temporaryFolder } from './git.ts'
import { updateRefs } from './history.ts'
import { signal } from './processes.ts'

/** A bare repository `odd.git` in a folder of its own, with every kind of ref that may be imported. */
export async function createOddSource() {
  const folder = await temporaryFolder()
  await using project = await createProject()
  const path = join(folder.path, 'odd.git')
  const first = await project.git('rev-parse', 'HEAD')
  const second = await project.commit('second.txt')
  await project.git('tag', '-a', '-m', 'One', 'v1', first)
  await project.git('tag', '-a', '-m', 'A tag of a tag', 'v1-again', 'v1')
  await project.git('tag', 'light', second)
  await project.git('notes', 'add', '-m', 'A note', first)
  const blob = await project.git('rev-parse', 'HEAD:second.txt')
  const tree = await project.git('rev-parse', 'HEAD^{tree}')
  await updateRefs(project.path, [
    `create refs/heads/develop ${first}`,
    `create refs/heads/deep/er/branch ${first}`,
    `create refs/heads/tmp_x.new ${first}`,
    `create refs/heads/größe-日本 ${second}`,
    `create refs/heads/a'b"c$(d);e ${second}`,
    `create refs/pull/1/head ${first}`,
    `create refs/custom/thing ${second}`,
    `create refs/tags/of-blob ${blob}`,
    `create refs/tags/of-tree ${tree}`,
  ])
  await git('/', ['clone', '--quiet', '--mirror', project.path, path])
  return { path, folder: folder.path, [Symbol.asyncDispose]: folder[Symbol.asyncDispose] }
}

/** A project with many files of noise: what takes a while to send, in steps that can be counted. */
export async function createNoisyProject({ files = 100, bytes = 64 * 1024 } = {}) {
  const project = await createProject()
  for (let number = 0; number < files; number++) {
    await writeFile(join(project.path, `noise-${number}.bin`), randomBytes(bytes))
  }
  await project.git('add', '.')
  await project.git('commit', '--quiet', '-m', 'Add noise')
  return project
}

/** All refs of a repository, with what they point to and what HEAD is. */
export async function contentOf(path: string): Promise<string> {
  const directory = ['-c', 'safe.directory=*', '--git-dir', path]
  const refs = await git('/', [...directory, 'for-each-ref', '--format=%(objectname) %(refname)'])
  return refs.stdout
}

/** What the HEAD of a bare repository says. */
export async function headOf(path: string): Promise<string> {
  const directory = ['-c', 'safe.directory=*', '--git-dir', path]
  return (await git('/', [...directory, 'symbolic-ref', 'HEAD'])).stdout
}

/** Fails unless a repository has all refs of another, and is sound. */
export async function assertSameContent(path: string, source: string): Promise<void> {
  assert.equal(await contentOf(path), await contentOf(source))
  await assertSound(path)
}

export async function assertSound(path: string): Promise<void> {
  const directory = ['-c', 'safe.directory=*', '--git-dir', path]
  const { stdout, stderr } = await git('/', [...directory, 'fsck', '--full', '--strict'])
  assert.deepEqual(
    [stdout, stderr.replace(/^(Checking|notice: (HEAD|No default)).*$/gm, '').trim()],
    ['', ''],
  )
}

/** The real git daemon on a loopback port, which serves the repositories below a folder. */
export async function startGitDaemon(folder: string) {
  const port = await freePort()
  // Otherwise it does not listen while an ended connection of the same port is in TIME_WAIT.
  const listening = ['--listen=127.0.0.1', `--port=${port}`, '--reuseaddr']
  const words = ['daemon', '--export-all', ...listening]
  const child = spawn('git', [...words, `--base-path=${folder}`, folder], {
    env: {
      PATH: process.env.PATH,
      HOME: '/nonexistent',
      GIT_CONFIG_NOSYSTEM: '1',
      GIT_CONFIG_COUNT: '1',
      GIT_CONFIG_KEY_0: 'safe.directory',
      GIT_CONFIG_VALUE_0: '*',
    },
    stdio: 'ignore',
    detached: true,
  })
  const ended = once(child, 'exit')
  await until('the git daemon listens', () => isListening(port))
  return {
    port,
    url: `git://127.0.0.1:${port}`,
    async [Symbol.asyncDispose]() {
      signal(-(child.pid ?? 0), 'SIGKILL')
      await ended
    },
  }
}

/**
 * A proxy to a port on which each connection gets a number of bytes of the server, and the rest when the
 * gate is opened: what is in the middle of something stays there.
 */
export async function startGate(port: number, bytes = Number.POSITIVE_INFINITY) {
  const waiting = new Set<() => void>()
  const open = new Set<Socket>()
  let allowed = bytes
  let passed = 0
  const server = createServer((client) => {
    const target = connect({ port, host: '127.0.0.1' })
    let got = 0
    const pass = (piece: Buffer) => {
      client.write(piece)
      got += piece.length
      passed = Math.max(passed, got)
    }
    const close = () => {
      open.delete(client)
      client.destroy()
      target.destroy()
    }
    open.add(client)
    client.on('error', close).on('close', close)
    let isHeld = false
    target.on('error', close)
    // A server that has said all that it wants to ends the connection, also while some of that is held.
    target.on('end', () => (isHeld ? waiting.add(() => client.end()) : client.end()))
    client.pipe(target)
    target.on('data', (piece: Buffer) => {
      if (got < allowed) return pass(piece)
      isHeld = true
      target.pause()
      waiting.add(() => {
        isHeld = false
        pass(piece)
        target.resume()
      })
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: portOf(server.address()),
    /** How many connections are open. */
    connections: () => open.size,
    /** The most that a connection has got. */
    passed: () => passed,
    /** Waits until a connection has got all that it gets for now. */
    untilHeld: () => until('something is held', () => waiting.size > 0),
    /** Forwards everything from now on, or up to a number of bytes. */
    open(until = Number.POSITIVE_INFINITY): void {
      allowed = until
      for (const goOn of waiting) goOn()
      waiting.clear()
    },
    [Symbol.dispose](): void {
      server.close()
      for (const socket of open) socket.destroy()
    },
  }
}

function portOf(address: AddressInfo | string | null): number {
  return typeof address === 'object' && address ? address.port : 0
}

function isListening(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: '127.0.0.1' }, () => resolve(true))
    socket.on('connect', () => socket.destroy()).on('error', () => resolve(false))
  })
}
