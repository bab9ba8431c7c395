// Tags: exhaustive, each-store
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { createProject, type Project } from '../support/git.ts'
import { without } from '../support/programs.ts'
import { type Client, createClient, type Service, startServiceWithSsh } from '../support/service.ts'
import { createSshUser, type SshUser } from '../support/ssh-user.ts'
import { actions, type Outcome, overHttp, overSsh, tryAll } from '../support/transports.ts'

/** A user of both transports. */
type Pair = { http: Client; ssh: SshUser }

type Row = {
  who: string
  username: string
  permissions?: string[]
  /** What was done to the principal since its token and key were made. */
  since?: (pair: Pair) => Promise<unknown>
  isCollaborator?: boolean
  /** In the order of the actions, over both transports. */
  outcomes: Outcome[]
  /** Where SSH differs, and only there. */
  overSsh?: Outcome[]
}

const both = ['repo:read', 'repo:write']
const all = (outcome: Outcome) => actions.map(() => outcome)
const seesNothing = all('absent')
const asReader: Outcome[] = ['done', 'done', 'done', 'forbidden', 'forbidden', 'forbidden']
const asWriter: Outcome[] = [
  ...(['forbidden', 'forbidden', 'forbidden'] as const),
  ...(['done', 'protected', 'protected'] as const),
]
const asCollaborator: Outcome[] = ['done', 'done', 'done', 'done', 'protected', 'protected']

const rows: Row[] = [
  { who: 'the owner', username: 'ada', outcomes: all('done') },
  {
    who: 'the owner, with read alone',
    username: 'ada',
    permissions: ['repo:read'],
    outcomes: asReader,
  },
  {
    who: 'the owner, with write alone',
    username: 'ada',
    permissions: ['repo:write'],
    outcomes: ['forbidden', 'forbidden', 'forbidden', 'done', 'done', 'done'],
  },
  {
    who: 'a collaborator',
    username: 'grace',
    isCollaborator: true,
    outcomes: asCollaborator,
  },
  {
    who: 'a collaborator with read alone',
    username: 'grace',
    permissions: ['repo:read'],
    isCollaborator: true,
    outcomes: asReader,
  },
  {
    who: 'a collaborator with write alone',
    username: 'grace',
    permissions: ['repo:write'],
    isCollaborator: true,
    outcomes: asWriter,
  },
  {
    who: 'a collaborator without any right',
    username: 'grace',
    permissions: [],
    isCollaborator: true,
    outcomes: all('forbidden'),
  },
  {
    who: 'a collaborator who was removed',
    username: 'alan',
    isCollaborator: true,
    since: () => owner.delete('/repos/site/collaborators/alan'),
    outcomes: seesNothing,
  },
  { who: 'a stranger', username: 'eve', outcomes: seesNothing },
  {
    // What is missing is said before anything is looked up.
    who: 'a stranger with read alone',
    username: 'eve',
    permissions: ['repo:read'],
    outcomes: ['absent', 'absent', 'absent', 'forbidden', 'forbidden', 'forbidden'],
  },
  {
    who: 'the owner whose token and key were removed',
    username: 'ada',
    async since({ http, ssh }) {
      await http.delete(`/keys/${ssh.keyId}`)
      await service.admin.delete(`/tokens/${http.id}`)
    },
    outcomes: all('unknown'),
  },
  {
    who: 'an admin',
    username: 'root',
    permissions: ['admin'],
    outcomes: all('done'),
    // Keys never act as admin.
    overSsh: seesNothing,
  },
  {
    who: 'an admin who is the owner',
    username: 'ada',
    permissions: ['admin'],
    outcomes: all('done'),
  },
]

let service: Service
let owner: Client
let project: Project

/** The repository, which is Ada's, and its branch `release`, which is protected. */
const site = () => ({
  name: 'site',
  folder: project.path,
  restore: () => project.git('push', '--quiet', owner.remote('site'), '+HEAD~:refs/heads/release'),
})

describe('over HTTP and over SSH', { skip: without('openssh') }, () => {
  before(async () => {
    service = await startServiceWithSsh({ env: { SVC_SSH_ANONYMOUS_READ: 'true' } })
    project = await createProject()
    await project.commit('second.txt')
    owner = await service.client({ username: 'ada', permissions: [...both, 'collaborator:write'] })
    await owner.post('/repos', { name: 'site' })
    await owner.put('/repos/site/protections/branches/release')
    // The first branch becomes the default one, which cannot be deleted.
    await project.git('push', '--quiet', owner.remote('site'), 'HEAD:refs/heads/main')
  })

  after(async () => {
    await service[Symbol.asyncDispose]()
    await project[Symbol.asyncDispose]()
  })

  for (const { who, username, permissions = both, ...row } of rows) {
    test(`${who} gets the same results`, async () => {
      const http = await service.client({ username, permissions })
      await using ssh = await createSshUser(service, http)
      if (row.isCollaborator) await owner.post('/repos/site/collaborators', { username })
      await row.since?.({ http, ssh })
      const tried = await tryAll(overHttp(http, site()), site())
      assert.deepEqual(tried, named(row.outcomes), 'over HTTP')
      const triedAgain = await tryAll(overSsh(ssh, site()), site())
      assert.deepEqual(triedAgain, named(row.overSsh ?? row.outcomes), 'over SSH')
    })
  }

  test('a client without a token and a registered key has no access', async () => {
    await using ssh = await createSshUser(service)
    const http = createClient(service.url, owner.token.replace(/.$/, '_'))
    assert.deepEqual(await tryAll(overHttp(http, site()), site()), named(all('unknown')))
    assert.deepEqual(await tryAll(overSsh(ssh, site()), site()), named(all('unknown')))
  })

  test('anonymous can read everything over SSH if configured, with any key', async () => {
    const offers = [undefined, await service.client({ username: 'ada' })]
    for (const by of offers) {
      await using anonymous = await createSshUser(service, by, { user: 'anonymous' })
      assert.deepEqual(await tryAll(overSsh(anonymous, site()), site()), named(asReader))
    }
  })

  test('anonymous has no access by default', async () => {
    await using closed = await startServiceWithSsh()
    for (const by of [undefined, await closed.client({ username: 'ada' })]) {
      await using anonymous = await createSshUser(closed, by, { user: 'anonymous' })
      assert.deepEqual(await tryAll(overSsh(anonymous, site()), site()), named(all('unknown')))
    }
  })

  test('--json prints the response of the API', async () => {
    await using ssh = await createSshUser(service, owner)
    await project.git('push', '--quiet', owner.remote('site'), '+HEAD:refs/heads/main')
    for (const [line, path] of [
      ['repos --json', '/repos'],
      ['info site --json', '/repos/site'],
      ['info --json site.git', '/repos/site'],
    ] as const) {
      const { exitCode, stdout, stderr } = await ssh.ssh(line)
      assert.deepEqual([exitCode, stderr], [0, ''])
      assert.deepEqual(JSON.parse(stdout), (await owner.get(path)).body)
    }
  })

  for (const command of ['git-upload-pack', 'git-receive-pack', 'git-upload-archive', 'info']) {
    test(`${command} does not distinguish forbidden and missing repositories`, async () => {
      await using eve = await createSshUser(service, await service.client({ username: 'eve' }))
      const names = ['site', 'SITE', 'gone', '..', 'import']
      const exitCode = command === 'info' ? 1 : 128
      for (const name of names) {
        const inGit = 'svc: This does not appear to be a git repository\n'
        const stderr = `${command === 'info' ? '' : inGit}svc: There is no repository "${name}", or it is not yours to see.\n`
        const ended = await eve.ssh(`${command} '/${name}.git'`)
        assert.deepEqual(ended, { exitCode, stdout: '', stderr })
      }
    })
  }
})

function named(outcomes: Outcome[]): Record<string, Outcome | undefined> {
  return Object.fromEntries(actions.map((action, index) => [action, outcomes[index]]))
}
