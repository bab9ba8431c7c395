import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import type { createCommitPool } from './commit-pool.ts'
import { git } from './git.ts'
import type { createLedger, RefChange } from './ledger.ts'
import type { Random } from './random.ts'
import type { Service } from './service.ts'

type Dependencies = {
  random: Random
  ledger: ReturnType<typeof createLedger>
  commits: Awaited<ReturnType<typeof createCommitPool>>
  /** How git is to reach the server over SSH; undefined where there is no client for it. */
  sshCommand: string | undefined
  /** A bare repository on the machine of the server, to be imported. */
  source: string
  /** Whether the records of changes may have to wait for a backup that holds the database. */
  mayRecordLater?: boolean
}

/** A time in which one server runs. What fails when it is being killed, or after, was just in flight. */
export type Session = { service: Service; isDying: boolean; answers: number }

type KnownRepository = {
  id: string
  /** Two while the outcome of a rename is unknown. */
  names: [string, ...string[]]
  /** The client that alone works in it; undefined for those that all share and keep. */
  owner: number | undefined
  mayBeGone: boolean
}

/** The names of imported repositories without pushes. */
export const copyPrefix = 'copy-'

const zeroId = '0'.repeat(40)
const pushers = [0, 1, 2]
const rivals = [3, 4]
const landlords = [5, 6]
const importers = [7, 8]
const committers = [9, 10]
const ownRefs = ['heads/one', 'heads/deep/er/two', 'tags/three', 'notes/four'] as const
const maxRepositories = 3

const branchPrefix = 'refs/heads/'
const apiBranch = (client: number) => `api/client-${client}`
const commitDate = '2026-01-01T00:00:00Z'
const commitFile = 'file.txt'

/** The id of a commit by the API whose tree has one file, as all commits of the pool have it. */
function commitId({ parent, content }: { parent: string; content: string }): string {
  const blob = objectId('blob', Buffer.from(content))
  const entry = Buffer.concat([Buffer.from(`100644 ${commitFile}\0`), Buffer.from(blob, 'hex')])
  const seconds = Date.parse(commitDate) / 1000
  const person = `admin <admin@users.noreply.localhost> ${seconds} +0000`
  const head = `tree ${objectId('tree', entry)}\nparent ${parent}`
  return objectId(
    'commit',
    Buffer.from(`${head}\nauthor ${person}\ncommitter ${person}\n\nChange\n`),
  )
}

function objectId(type: string, content: Buffer): string {
  return createHash('sha1').update(`${type} ${content.length}\0`).update(content).digest('hex')
}

/** Clients that push, create, import, rename and delete concurrently, and record the responses. */
export function createLoad(dependencies: Dependencies) {
  const { random, ledger, commits, sshCommand, source, mayRecordLater = false } = dependencies
  const known = new Map<string, KnownRepository>()
  const wanted = new Map<string, number | undefined>()
  const deleted = new Set<string>()
  let names = 0

  async function create(session: Session, owner: number | undefined): Promise<void> {
    const name = `repository-${names++}`
    wanted.set(name, owner)
    const { status, body, text } = await session.service.admin.post('/repos', { name })
    assert.equal(status, 201, text)
    wanted.delete(name)
    known.set(body.id, { id: body.id, names: [name], owner, mayBeGone: false })
  }

  /** Imports from a folder, or what others push into just now from the server itself. */
  async function importOne(session: Session, owner: number): Promise<void> {
    const { admin } = session.service
    const isCopy = random.chance(0.5)
    const name = `${isCopy ? copyPrefix : 'repository-'}${names++}`
    wanted.set(name, owner)
    const from = isCopy ? source : admin.remote(pickShared().names[0])
    const { status, body, text } = await admin.post('/repos/import', { source: from, name })
    assert.equal(status, 201, text)
    wanted.delete(name)
    ledger.forget(body.id)
    known.set(body.id, { id: body.id, names: [name], owner, mayBeGone: false })
  }

  async function rename(session: Session, repository: KnownRepository): Promise<void> {
    const name = `repository-${names++}`
    const [before] = repository.names
    repository.names = [before, name]
    const { status, text } = await session.service.admin.patch(`/repos/${before}`, { name })
    assert.equal(status, 200, text)
    repository.names = [name]
  }

  async function remove(session: Session, repository: KnownRepository): Promise<void> {
    repository.mayBeGone = true
    ledger.forget(repository.id)
    const { status, text } = await session.service.admin.delete(`/repos/${repository.names[0]}`)
    assert.equal(status, 204, text)
    known.delete(repository.id)
    deleted.add(repository.id)
  }

  async function push(
    session: Session,
    { id, names: [name] }: KnownRepository,
    changes: RefChange[],
    { mayFail = false } = {},
  ): Promise<void> {
    const asked = ledger.ask(id, changes)
    const specs = changes.map(({ ref, after }) => `+${after === zeroId ? '' : after}:${ref}`)
    const inChunks = random.chance(0.3) ? ['-c', 'http.postBuffer=1'] : []
    const isSsh = sshCommand !== undefined && random.chance(0.4)
    const { admin, ssh } = session.service
    const remote = isSsh ? `${ssh}/${name}.git` : admin.remote(name)
    const env = isSsh ? { GIT_SSH_COMMAND: sshCommand } : {}
    try {
      await git(commits.path, [...inChunks, 'push', '--quiet', remote, ...specs], env)
      asked.acknowledge()
      session.answers += 1
    } catch (error) {
      // Which branch is the default one depends on who pushed first.
      if (!mayFail && !/is the default branch/.test(String(error))) throw error
    }
  }

  function changesOf(client: number, { id }: KnownRepository): RefChange[] {
    const chosen = ownRefs.filter(() => random.chance(0.4))
    const refs = chosen.length > 0 ? chosen : [random.pick(ownRefs)]
    return refs.map((name) => {
      const ref = `refs/${name.replace('/', `/client-${client}/`)}`
      const isDeletion = random.chance(0.3) && ledger.isThere(id, ref)
      return { ref, after: isDeletion ? zeroId : commits.next() }
    })
  }

  function ownedBy(owner: number | undefined): KnownRepository[] {
    return [...known.values()].filter((repository) => repository.owner === owner)
  }

  function pickShared(): KnownRepository {
    const [first, ...others] = ownedBy(undefined)
    assert.ok(first)
    return random.pick([first, ...others])
  }

  const stepOf = {
    pusher(session: Session, client: number): Promise<void> {
      const repository = pickShared()
      return push(session, repository, changesOf(client, repository))
    },

    /** All rivals want the same branch; git lets one of those that come at the same time have it. */
    rival(session: Session): Promise<void> {
      const change = { ref: 'refs/heads/contended', after: commits.next(), isShared: true }
      return push(session, pickShared(), [change], { mayFail: true })
    },

    async landlord(session: Session, client: number): Promise<void> {
      const [first, ...others] = ownedBy(client)
      if (!first || (others.length + 1 < maxRepositories && random.chance(0.3))) {
        await create(session, client)
        return
      }
      const repository = random.pick([first, ...others])
      const pushing = () =>
        push(session, repository, changesOf(client, repository), { mayFail: true })
      const what = random.pick(['push', 'push', 'rename', 'delete', 'push+rename', 'push+delete'])
      await Promise.all([
        what.includes('push') && pushing(),
        what.includes('rename') && rename(session, repository),
        what.includes('delete') && remove(session, repository),
      ])
      session.answers += 1
    },
  }

  /** Commits by the API, with an id that is known before. `heads` are its own, by repository. */
  async function commit(session: Session, client: number, heads: Map<string, string>) {
    const { id: repositoryId, names } = pickShared()
    const [name] = names
    const branch = apiBranch(client)
    const { admin } = session.service
    const head = heads.get(repositoryId) ?? (await headOf(session, name, branch))
    const content = `${random.below(1_000_000)}\n`
    const id = commitId({ parent: head, content })
    const asked = ledger.ask(repositoryId, [{ ref: branchPrefix + branch, after: id }])
    const changes = [{ path: commitFile, content }]
    const { status, body, text } = await admin.post(`/repos/${name}/commits`, {
      ...{ branch, expectedHead: head, message: 'Change', date: commitDate, changes },
      // The same content may come twice.
      allowEmpty: true,
    })
    if (!(mayRecordLater && status === 503 && /The change is made/.test(text))) {
      assert.equal(status, 201, text)
      assert.equal(body.id, id)
    }
    asked.acknowledge()
    heads.set(repositoryId, id)
    session.answers += 1
  }

  async function headOf({ service }: Session, name: string, branch: string): Promise<string> {
    const query = `rev=${encodeURIComponent(branch)}&limit=1`
    const { status, body, text } = await service.admin.get(`/repos/${name}/commits?${query}`)
    assert.equal(status, 200, text)
    return body[0].id
  }

  async function importOrRemove(session: Session, client: number): Promise<void> {
    const own = ownedBy(client)
    const [first, ...others] = own
    if (first && own.length >= maxRepositories) {
      await remove(session, random.pick([first, ...others]))
    } else await importOne(session, client)
    session.answers += 1
  }

  async function work(session: Session, step: () => Promise<void>): Promise<void> {
    try {
      while (!session.isDying) await step()
    } catch (error) {
      // What goes wrong before anybody kills the server is a fault of the server.
      if (!session.isDying) throw error
    }
  }

  return {
    /** Makes the repositories that all clients share, with the branches of commits by the API. */
    async prepare(session: Session, count: number): Promise<void> {
      for (let number = 0; number < count; number++) await create(session, undefined)
      for (const repository of ownedBy(undefined)) {
        const refs = committers.map((client) => branchPrefix + apiBranch(client))
        const changes = refs.map((ref) => ({ ref, after: commits.next() }))
        await push(session, repository, changes)
      }
    },

    /** Lets all clients work until the session is dying. */
    async run(session: Session): Promise<void> {
      await Promise.all([
        ...committers.map((client) => {
          const heads = new Map<string, string>()
          return work(session, () => commit(session, client, heads))
        }),
        ...pushers.map((client) => work(session, () => stepOf.pusher(session, client))),
        ...rivals.map(() => work(session, () => stepOf.rival(session))),
        ...landlords.map((client) => work(session, () => stepOf.landlord(session, client))),
        ...importers.map((client) => work(session, () => importOrRemove(session, client))),
      ])
    },

    /** Compares the repositories that there are with those that were asked for; the faults. */
    settle(listed: { id: string; name: string }[]): string[] {
      const faults: string[] = []
      const present = new Map(listed.map(({ id, name }) => [id, name]))
      for (const { id, name } of listed) {
        const repository = known.get(id)
        if (deleted.has(id)) faults.push(`${name} (${id}) was deleted and is there`)
        else if (repository && !repository.names.includes(name)) {
          faults.push(`${id} is called ${name}, not ${repository.names.join(' or ')}`)
        } else if (!repository && !wanted.has(name))
          faults.push(`${name} (${id}) was not created by the load`)
        const owner = repository ? repository.owner : wanted.get(name)
        // An import that came to its end without an answer has what its source had.
        if (!repository && owner !== undefined && importers.includes(owner)) ledger.forget(id)
        known.set(id, { id, names: [name], owner, mayBeGone: false })
      }
      for (const repository of known.values()) {
        if (present.has(repository.id)) continue
        if (!repository.mayBeGone) faults.push(`${repository.names} (${repository.id}) is gone`)
        known.delete(repository.id)
      }
      wanted.clear()
      return faults
    },
  }
}
