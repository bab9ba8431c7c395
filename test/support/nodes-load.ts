import assert from 'node:assert/strict'
import { git } from './git.ts'
import type { Random } from './random.ts'
import type { Service } from './service.ts'

type Options = {
  random: Random
  /** A repository whose commits are pushed, and what hands out a new commit. */
  commits: { path: string; next: () => string }
  nodes: Service[]
  repositories: string[]
}

/** What a client knows of the ref that it alone pushes. */
type OwnRef = {
  repository: string
  ref: string
  acknowledged: string | undefined
  /** What it has pushed since without hearing of the outcome. */
  unknown: string[]
}

const contended = 'refs/heads/contended'
// A client that hangs as long as a stopped node would delay the others.
const patienceMs = 30_000

/**
 * Clients that push through any node and read through any other. Each is the only one that pushes its ref, so that it
 * knows what a read may find: what was acknowledged last, or something that it pushed later.
 */
export function createNodesLoad({ random, commits, nodes, repositories }: Options) {
  const acknowledged: { repository: string; ref: string; after: string }[] = []
  const refs: OwnRef[] = []
  const counts = { acknowledged: 0, unknown: 0, reads: 0, failedReads: 0 }
  let isEnding = false

  const anyNode = () => random.pick(nodes as [Service, ...Service[]])

  async function push(repository: string, ref: string, after: string): Promise<boolean> {
    const remote = anyNode().admin.remote(repository)
    try {
      await git(commits.path, ['push', '--quiet', remote, `+${after}:${ref}`], limits)
    } catch {
      counts.unknown++
      return false
    }
    counts.acknowledged++
    acknowledged.push({ repository, ref, after })
    return true
  }

  async function read(repository: string, ref: string): Promise<string | undefined> {
    counts.reads++
    try {
      const { stdout } = await git(
        '/',
        ['ls-remote', anyNode().admin.remote(repository), ref],
        limits,
      )
      return stdout.slice(0, 40)
    } catch {
      counts.failedReads++
      return undefined
    }
  }

  async function pushOwn(own: OwnRef): Promise<void> {
    const after = commits.next()
    if (await push(own.repository, own.ref, after)) {
      own.acknowledged = after
      own.unknown = []
    } else own.unknown.push(after)
    const found = await read(own.repository, own.ref)
    if (found === undefined) return
    const possible = [own.acknowledged ?? '', ...own.unknown]
    assert.ok(possible.includes(found), `${own.ref} is ${found}, not one of ${possible.join(', ')}`)
  }

  async function pushContended(): Promise<void> {
    await push(random.pick(repositories as [string, ...string[]]), contended, commits.next())
  }

  return {
    counts,
    acknowledged,
    /** The refs of single clients, with what each may be now. */
    refs,

    /** Lets clients work until `end`; rejects when one reads what must not be. */
    async run(clients: number): Promise<void> {
      const all = Array.from({ length: clients }, async (_, client) => {
        const own: OwnRef = {
          repository: repositories[client % repositories.length] ?? '',
          ref: `refs/heads/client-${client}`,
          acknowledged: undefined,
          unknown: [],
        }
        refs.push(own)
        while (!isEnding) {
          if (random.chance(0.2)) await pushContended()
          else await pushOwn(own)
        }
      })
      await Promise.all(all)
    },

    end(): void {
      isEnding = true
    },
  }
}

const limits = {
  GIT_HTTP_LOW_SPEED_LIMIT: '1',
  GIT_HTTP_LOW_SPEED_TIME: String(patienceMs / 1000),
}
