import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { chmod, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { type IncomingMessage, request } from 'node:http'
import { delimiter, join } from 'node:path'
import { dayMs } from '#base/clock.ts'
import { type MaintenanceExtent, maintain } from '#git/maintenance/maintain.ts'
import { createGit } from '#git/process/git-process.ts'
import { firstPacket, flushPacket, packet } from '#git/protocol/pkt-line.ts'
import { createRepositoryVersions } from '#git/refs/repository-version.ts'
import { until } from './condition.ts'
import { createProject, temporaryFolder } from './git.ts'
import { gitLimits } from './git-limits.ts'
import { parseMetrics } from './metrics-text.ts'
import { objectFormat } from './object-format.ts'
import { commandOf, processesIn } from './processes.ts'
import { gitHeaders } from './raw-git.ts'
import { type Client, type Service, startService } from './service.ts'

export type FetchService = Awaited<ReturnType<typeof startFetchService>>
export type FetchSite = Awaited<ReturnType<FetchService['createSite']>>

type Options = {
  env?: Record<string, string>
  dataDir?: string
}

/** A service with the repository `site`, whose gits can be counted and held up. */
export async function startFetchSite(options: Options = {}): Promise<FetchSite> {
  await using starting = new AsyncDisposableStack()
  const started = starting.use(await startFetchService(options))
  const site = starting.use(await started.createSite('site'))
  const all = starting.move()
  return { ...site, [Symbol.asyncDispose]: () => all.disposeAsync() }
}

/** A service on which each test can have a repository of its own. */
export async function startFetchService({ env = {}, ...options }: Options = {}) {
  await using starting = new AsyncDisposableStack()
  const folder = starting.use(await temporaryFolder())
  const [programs, traces, gate] = ['bin', 'traces', 'gate'].map((name) => join(folder.path, name))
  assert.ok(programs && traces && gate)
  await mkdir(programs)
  await mkdir(traces)
  await writeFile(
    join(programs, 'git'),
    `#!/bin/sh
PATH='${process.env.PATH}'
export PATH GIT_TRACE2_EVENT='${traces}'
[ -e '${gate}' ] || exec git "$@"
git "$@" | {
  head -c "$(cat '${gate}')"
  while [ -e '${gate}' ]; do sleep 0.02; done
  cat
}
`,
  )
  await chmod(join(programs, 'git'), 0o755)
  const path = [programs, process.env.PATH].join(delimiter)
  const service = starting.use(await startService({ ...options, env: { PATH: path, ...env } }))
  const started = starting.move()
  return {
    createSite: (name: string) => createFetchSite({ service, traces, gate, name }),
    [Symbol.asyncDispose]: () => started.disposeAsync(),
  }
}

type Shared = { service: Service; traces: string; gate: string; name: string }

async function createFetchSite({ service, traces, gate, name }: Shared) {
  await using starting = new AsyncDisposableStack()
  const folder = starting.use(await temporaryFolder())
  const project = starting.use(await createProject())
  const { body } = await service.admin.post('/repos', { name })
  const directory: string = body.path
  const earlier = await fetchesOf(service)
  const started = starting.move()

  return {
    service,
    project,
    name,
    folder: folder.path,
    remote: service.admin.remote(name),
    /** The repository's directory. */
    directory,

    push: (...args: string[]) =>
      project.git('push', '--quiet', service.admin.remote(name), ...args),

    /** Waits until the version of the repository is settled. */
    async settle(): Promise<void> {
      const stamps = createRepositoryVersions()
      const everything = { objects: true, tags: true }
      await until('the version is settled', () => stamps.stamp(directory, everything) !== undefined)
    },

    /** Does a maintenance's work beside the server; objects unreachable since before a time are pruned. */
    maintain: (extent: MaintenanceExtent, expireBefore = Date.now() - 14 * dayMs) =>
      maintain(directory, {
        git: createGit({
          settings: gitLimits,
          owner: folder.path,
          path: process.env.PATH ?? '',
        }),
        extent,
        expireBefore,
        memoryMaxBytes: 2 ** 30,
        watch() {},
        waitForOtherHolds: async () => true,
        faultPoint() {},
        signal: new AbortController().signal,
      }),

    /** Starts a fetch. */
    ask(body: Buffer, { token }: Pick<Client, 'token'> = service.admin) {
      const headers = gitHeaders('git-upload-pack', token, body.length)
      const sent = request(`${service.url}/repos/${name}.git/git-upload-pack`, {
        method: 'POST',
        headers: { ...headers, 'git-protocol': 'version=2' },
        agent: false,
      })
      const answered = once(sent, 'response').then(([response]) => response as IncomingMessage)
      // Who leaves before does not wait for it.
      answered.catch(() => {})
      sent.end(body)
      return { answered, leave: () => sent.destroy() }
    },

    /** Fetches; all of the answer. */
    async fetch(body: Buffer, by?: Pick<Client, 'token'>): Promise<Fetched> {
      return readWhole(await this.ask(body, by).answered)
    },

    /** Limits the output of every git that is started from now on. */
    hold: (bytes: number) => writeFile(gate, String(bytes)),
    /** Has them all say the rest. */
    release: () => rm(gate),

    /** The git processes that serve requests. */
    gits: () => processesIn(service.dataDir).filter((pid) => /upload-pack/.test(commandOf(pid))),

    /** How many packs were made for clients so far. */
    async packs(): Promise<number> {
      const texts = await Promise.all(
        (await readdir(traces)).map((name) => readFile(join(traces, name), 'utf8')),
      )
      const starts = texts.flatMap((text) => text.match(/"event":"start".*"pack-objects".*/g) ?? [])
      return starts.filter((line) => line.includes('"--stdout"')).length
    },

    /** How many fetches got their responses from which source, over a transport, since the repository is there. */
    async sources(via = 'http'): Promise<Record<string, number>> {
      const found = [...(await fetchesOf(service))].map(([key, count]) => {
        const [transport, result = ''] = key.split(' ')
        return { transport, result, count: count - (earlier.get(key) ?? 0) }
      })
      const own = found.filter(({ transport, count }) => transport === via && count > 0)
      return Object.fromEntries(own.map(({ result, count }) => [result, count]))
    },

    [Symbol.asyncDispose]: () => started.disposeAsync(),
  }
}

/** How many fetches of the service got their responses from which source, by transport and source. */
async function fetchesOf({ admin }: Service): Promise<Map<string, number>> {
  const { samples } = parseMetrics((await admin.get('/metrics')).text)
  const found = samples.filter(({ name }) => name === 'svc_fetch_cache_total')
  return new Map(found.map(({ labels, value }) => [`${labels.via} ${labels.result}`, value]))
}

export type Fetched = {
  status: number
  bytes: Buffer
  /** What the answer says, however it is cut into pieces: that depends on git's pipes. */
  said: string
  isCut: boolean
}

/** All of an answer, or what comes of it until it is cut. */
export async function readWhole(response: IncomingMessage): Promise<Fetched> {
  const pieces: Buffer[] = []
  let isCut = false
  try {
    for await (const piece of response) pieces.push(piece)
  } catch {
    isCut = true
  }
  const bytes = Buffer.concat(pieces)
  const status = response.statusCode ?? 0
  return { status, bytes, said: isCut || status !== 200 ? '' : saidBy(bytes), isCut }
}

/** The lines of an answer, and a hash of its pack. */
export function saidBy(bytes: Buffer): string {
  const { lines, pack } = parseAnswer(bytes)
  return [...lines, createHash('sha256').update(pack).digest('hex')].join('|')
}

/** The lines of an answer, without its pack, and the pack. */
export function parseAnswer(bytes: Buffer): { lines: string[]; pack: Buffer } {
  const lines: string[] = []
  const pack: Buffer[] = []
  let isPack = false
  for (let at = 0; at < bytes.length; ) {
    const found = firstPacket(bytes.subarray(at))
    if (typeof found !== 'object') throw new Error(`The answer is ${found} at ${at}.`)
    at += found.length
    const line = found.packet.kind === 'data' ? found.packet.payload : undefined
    if (isPack && line?.[0] === 1) pack.push(line.subarray(1))
    else lines.push(line ? line.toString('latin1') : found.packet.kind)
    isPack ||= line?.toString() === 'packfile\n'
  }
  return { lines, pack: Buffer.concat(pack) }
}

/** A `fetch` command of version 2. */
export function fetchBody(...args: string[]): Buffer {
  return Buffer.concat([
    packet('command=fetch'),
    packet(`agent=test/${Math.random()}`),
    packet(`object-format=${objectFormat}`),
    Buffer.from('0001'),
    ...args.map((arg) => packet(`${arg}\n`)),
    flushPacket,
  ])
}

/** The `fetch` command of a clone of commits. */
export function cloneOf(...ids: string[]): Buffer {
  const wants = ids.map((id) => `want ${id}`)
  return fetchBody('thin-pack', 'no-progress', 'include-tag', 'ofs-delta', ...wants, 'done')
}
