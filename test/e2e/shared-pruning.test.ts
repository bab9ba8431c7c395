// Tags: exhaustive
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { promisify } from 'node:util'
import { maintain } from '#git/maintenance/maintain.ts'
import { createGit } from '#git/process/git-process.ts'
import { flushPacket, packet } from '#git/protocol/pkt-line.ts'
import { runSvc } from '../support/command.ts'
import { until } from '../support/condition.ts'
import { createProject, git, type Project, temporaryFolder } from '../support/git.ts'
import { gitLimits } from '../support/git-limits.ts'
import { withoutObjectStore } from '../support/object-store.ts'
import { commandOf, processesIn } from '../support/processes.ts'
import { without } from '../support/programs.ts'
import { gitHeaders } from '../support/raw-git.ts'
import { connectRaw } from '../support/raw-http.ts'
import { type Service, startService } from '../support/service.ts'
import { type StoreSite, startStoreSite } from '../support/store-site.ts'

const execute = promisify(execFile)
const skip = withoutObjectStore || without('postgres')
const minuteMs = 60_000
const zeroId = '0'.repeat(40)

describe('pruning of a shared store', { skip }, () => {
  let site: StoreSite
  let project: Project
  let service: Service
  let env: Record<string, string>

  before(async () => {
    site = await startStoreSite({ SVC_UNDO_DAYS: '0' })
    project = await createProject()
    ;({ service, env } = site)
  })

  after(async () => {
    await site[Symbol.asyncDispose]()
    await project[Symbol.asyncDispose]()
  })

  /** Commits a file on top of HEAD without moving it. */
  async function commitFile(name: string, parent: string): Promise<string> {
    await writeFile(join(project.path, name), randomBytes(100_000))
    await project.git('add', name)
    const tree = await project.git('write-tree')
    return project.git('commit-tree', '-p', parent, '-m', name, tree)
  }

  /** A repository with a commit that no ref leads to any more. */
  async function createWithGarbage(name: string): Promise<{ kept: string; dropped: string }> {
    await service.admin.post('/repos', { name })
    const remote = service.admin.remote(name)
    const kept = await commitFile(`${name}-kept`, await project.git('rev-parse', 'HEAD'))
    const dropped = await commitFile(`${name}-dropped`, kept)
    await project.git('push', '--quiet', remote, `${kept}:refs/heads/main`)
    await project.git('push', '--quiet', remote, `${dropped}:refs/heads/topic`)
    await project.git('push', '--quiet', remote, ':topic')
    // From now on the store knows the time of each unreachable object.
    const here = { ...env, SVC_DATA_DIR: service.dataDir }
    assert.equal((await runSvc(['repos', 'maintain', name, '--full'], here)).code, 0)
    return { kept, dropped }
  }

  /** Maintains a repository as another node would, a fortnight later. */
  async function pruneElsewhere(name: string): Promise<void> {
    const { id } = (await service.admin.get(`/repos/${name}`)).body
    const dataDir = join(site.folder, `node-${name}`)
    await using store = await site.openStore(dataDir)
    await using generation = await store.shared?.beginGeneration(id)
    assert.ok(generation)
    const pruned = await maintain(generation.path, {
      git: createGit({ settings: gitLimits, owner: dataDir, path: process.env.PATH ?? '' }),
      extent: 'full',
      isCache: true,
      expireBefore: Date.now() + minuteMs,
      memoryMaxBytes: 2 ** 30,
      watch: () => {},
      waitForOtherHolds: async () => true,
      faultPoint: () => {},
      signal: new AbortController().signal,
    })
    assert.ok(pruned)
    await generation.publish(pruned)
  }

  /** Fetches a commit by its id. */
  async function fetchAlone(name: string, commit: string): Promise<void> {
    await using target = await temporaryFolder()
    await git(target.path, ['init', '--quiet', '--bare'])
    await git(target.path, ['fetch', '--quiet', service.admin.remote(name), commit])
  }

  async function isCached(name: string, commit: string): Promise<boolean> {
    const { path } = (await service.admin.get(`/repos/${name}`)).body
    return git(path, ['cat-file', '-e', commit]).then(
      () => true,
      () => false,
    )
  }

  /** Begins a push of a commit whose pack leaves out what `base` leads to; returns what completes it. */
  async function beginPush(name: string, branch: string, commit: string, base: string) {
    const ids = await project.git('rev-list', '--objects', '--no-object-names', commit, `^${base}`)
    const pack = execute('git', ['pack-objects', '--stdout', '--quiet'], {
      cwd: project.path,
      encoding: 'buffer',
      maxBuffer: 2 ** 24,
    })
    pack.child.stdin?.end(`${ids}\n`)
    const command = packet(`${zeroId} ${commit} refs/heads/${branch}\0 report-status`)
    const body = Buffer.concat([command, flushPacket, (await pack).stdout])
    const connection = await connectRaw(service.url)
    const headers = gitHeaders('git-receive-pack', service.adminToken, body.length)
    connection.request(`POST /repos/${name}.git/git-receive-pack`, headers)
    connection.socket.write(body.subarray(0, -1000))
    return async () => {
      connection.socket.write(body.subarray(-1000))
      await until('the push is answered', () => /(ok|ng) refs/.test(connection.received()))
      connection.socket.destroy()
      return connection.received()
    }
  }

  test('unreachable objects keep their age, and go after a fortnight, on all nodes', async () => {
    const { kept, dropped } = await createWithGarbage('aged')
    assert.equal(await isCached('aged', dropped), true, 'unreachable objects are kept at first')
    // The responses are stored from the second time on.
    for (let times = 0; times < 3; times++) await fetchAlone('aged', dropped)
    await pruneElsewhere('aged')
    assert.equal(await isCached('aged', dropped), false)
    assert.equal(await isCached('aged', kept), true)
    await assert.rejects(fetchAlone('aged', dropped), /not our ref/)
    await assertClones('aged')
  })

  test('a push that began before objects were pruned succeeds if it has all, and else fails', async () => {
    const { kept, dropped } = await createWithGarbage('late')
    const onDropped = await commitFile('late-on-dropped', dropped)
    const finishWithout = await beginPush('late', 'without', onDropped, dropped)
    const finishWith = await beginPush('late', 'with', onDropped, kept)
    const isReceiving = (pid: number) => /index-pack/.test(commandOf(pid))
    const count = () => processesIn(service.dataDir).filter(isReceiving).length
    await until('both have begun', () => count() === 2)
    await pruneElsewhere('late')
    assert.match(await finishWithout(), /ng refs\/heads\/without/)
    assert.match(await finishWith(), /ok refs\/heads\/with/)
    const { stdout } = await git('/', ['ls-remote', service.admin.remote('late')])
    assert.doesNotMatch(stdout, /without/)
    await assertClones('late')
  })

  test('pruned objects that a push has used meanwhile stay, and others go at the next try', async () => {
    const { dropped } = await createWithGarbage('used')
    const remote = service.admin.remote('used')
    const { id } = (await service.admin.get('/repos/used')).body
    await using node = await site.openStore(join(site.folder, 'bare'))
    const prune = async (isComplete: () => Promise<boolean>) => {
      await using generation = await node.shared?.beginGeneration(id)
      assert.ok(generation)
      const path = ['--git-dir', generation.path]
      await git('/', [...path, 'repack', '-adq', '--cruft', '--cruft-expiration=now'])
      await generation.publish({ isComplete })
    }
    await assert.rejects(
      prune(async () => false),
      /A push needs objects that were pruned/,
    )
    assert.equal(await isCached('used', dropped), true)
    let checks = 0
    await prune(async () => {
      if (checks++ === 0) await project.git('push', '--quiet', remote, 'HEAD:refs/heads/other')
      return true
    })
    assert.equal(checks, 2)
    assert.equal(await isCached('used', dropped), false)
    await assertClones('used')
  })

  test('a push waits while its own node maintains a repository that another one has pruned', async () => {
    const { kept, dropped } = await createWithGarbage('merging')
    const { id } = (await service.admin.get('/repos/merging')).body
    await using node = await site.openStore(join(site.folder, 'merging'))
    const { pruneEpoch } = await node.at({ id, version: 0 })
    let checks = 0
    const push = async () =>
      await node.shared?.commit(
        {
          repositoryId: id,
          updates: [{ ref: 'refs/heads/late', before: zeroId, after: kept }],
          isAtomic: false,
          objects: new Map([[kept, 'commit']]),
          peeled: new Map(),
          pruneEpoch,
          async isConnected() {
            checks++
            assert.equal(checks, 1, 'it is checked once the pruned objects are gone')
            return true
          },
          begin: async () => ({ pushedAt: Date.now() }),
          retain: () => new Map(),
          record: async () => {},
        },
        undefined,
      )
    {
      await using _generation = await node.shared?.beginGeneration(id)
      await pruneElsewhere('merging')
      await assert.rejects(push(), /this server is still maintaining it\. Push again/)
    }
    const outcome = await push()
    assert.equal(outcome?.committed?.moved.length, 1)
    assert.equal(await isCached('merging', dropped), false)
    await assertClones('merging')
  })

  /** Clones from a server that starts empty, too. */
  async function assertClones(name: string): Promise<void> {
    await using empty = await startService({ env })
    for (const { admin } of [service, empty]) {
      await using target = await temporaryFolder()
      const clone = join(target.path, 'clone')
      await git('/', ['clone', '--quiet', '--mirror', admin.remote(name), clone])
      await git(clone, ['fsck', '--strict'])
    }
  }
})
