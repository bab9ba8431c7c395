import assert from 'node:assert/strict'
import { mkdir } from 'node:fs/promises'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { type ClientHome, loggedIn } from '../support/client-home.ts'
import { createProject, type Project, temporaryFolder } from '../support/git.ts'
import { serving, startHttpHost } from '../support/remote-hosts.ts'
import { type Service, startService } from '../support/service.ts'
import { newKeyLine } from '../support/ssh-keys.ts'

const token = 'token-of-the-host'

let service: Service
let home: ClientHome
let project: Project

before(async () => {
  service = await startService()
  home = await loggedIn(service)
  project = await createProject()
})

after(async () => {
  await project[Symbol.asyncDispose]()
  await home[Symbol.asyncDispose]()
  await service[Symbol.asyncDispose]()
})

/** A host as its API describes it: JSON by path, in pages of one entry. */
type Host = {
  /** The path of the list of repositories. */
  list: string
  toList?: (rows: object[]) => object
  repository: (path: string, more: object) => object
  others: (key: string) => Record<string, object>
}

const hosts: Record<'gitea' | 'github' | 'gitlab', Host> = {
  gitea: {
    list: '/api/v1/repos/search',
    toList: (data) => ({ ok: true, data }),
    repository: (path, { isPublic, ...more }: { isPublic?: boolean }) => ({
      id: 1,
      full_name: path,
      name: path.split('/')[1],
      private: !isPublic,
      internal: false,
      default_branch: 'main',
      ...more,
    }),
    others: (key) => ({
      '/api/v1/repos/acme/site/branch_protections': [
        { branch_name: 'main', rule_name: 'main', enable_push: false, required_approvals: 1 },
        { branch_name: '', rule_name: 'free/*', enable_push: true, enable_push_whitelist: false },
      ],
      '/api/v1/repos/acme/site/keys': [{ id: 3, key, title: 'deployer', read_only: true }],
      '/api/v1/repos/acme/site/hooks': [
        { id: 5, type: 'gitea', config: { url: 'https://ci.example.com/hook' }, active: true },
      ],
    }),
  },
  github: {
    list: '/api/v3/user/repos',
    repository: (path, { isPublic, ...more }: { isPublic?: boolean }) => ({
      id: 1,
      full_name: path,
      private: !isPublic,
      visibility: isPublic ? 'public' : 'private',
      default_branch: 'main',
      ...more,
    }),
    others: (key) => ({
      '/api/v3/repos/acme/site/branches': [
        { name: 'main', commit: {}, protected: true },
        { name: 'free/*', commit: {}, protected: true },
      ],
      '/api/v3/repos/acme/site/branches/main/protection': {
        required_pull_request_reviews: { required_approving_review_count: 1 },
        allow_force_pushes: { enabled: false },
      },
      '/api/v3/repos/acme/site/branches/free%2F*/protection': {
        allow_force_pushes: { enabled: false },
      },
      '/api/v3/repos/acme/site/keys': [{ id: 3, key, title: 'deployer', read_only: true }],
      '/api/v3/repos/acme/site/hooks': [
        { id: 5, name: 'web', config: { url: 'https://ci.example.com/hook' }, events: ['push'] },
      ],
    }),
  },
  gitlab: {
    list: '/api/v4/projects',
    repository: (path, { isPublic, ...more }: { isPublic?: boolean }) => ({
      id: path === 'acme/site' ? 7 : 8,
      path_with_namespace: path,
      visibility: isPublic ? 'public' : 'private',
      default_branch: 'main',
      ...more,
    }),
    others: (key) => ({
      '/api/v4/projects/7/protected_branches': [
        {
          id: 1,
          name: 'main',
          push_access_levels: [{ access_level: 40, access_level_description: 'Maintainers' }],
          allow_force_push: false,
        },
        { id: 2, name: 'free/*', push_access_levels: [{ access_level: 30 }] },
      ],
      '/api/v4/projects/7/deploy_keys': [{ id: 3, key, title: 'deployer', can_push: false }],
      '/api/v4/projects/7/hooks': [{ id: 5, url: 'https://ci.example.com/hook' }],
    }),
  },
}

/** Answers as a host does. Its repositories are public to Git, and its API wants the token. */
function answersOf({ list, toList = (rows) => rows, others, repository }: Host, key: string) {
  const rows = [
    repository('acme/site', { description: 'The site\n', isPublic: true }),
    repository('acme/other', { description: null }),
    repository('bob/site', {}),
    repository('bob/..', {}),
  ]
  const git = serving(join(project.path, '.git'))
  const asked: string[] = []
  const answer = (request: IncomingMessage, response: ServerResponse) => {
    const { pathname, searchParams } = new URL(request.url ?? '', 'http://host.example')
    if (!pathname.startsWith('/api/')) {
      asked.push(request.headers.authorization ?? '')
      return void git(request, response)
    }
    const isAuthorized = request.headers.authorization === `Bearer ${token}`
    const page = Number(searchParams.get('page'))
    const isList = pathname === list
    const body = isList ? toList(rows.slice(page - 1, page)) : others(key)[pathname]
    const hasNext = isList && page < rows.length
    response.writeHead(isAuthorized ? (body ? 200 : 404) : 401, {
      'content-type': 'application/json',
      ...(hasNext && { link: `<http://elsewhere.example/?page=${page + 1}>; rel="next"` }),
    })
    response.end(JSON.stringify(body ?? { message: 'Not Found' }))
  }
  return { answer, asked }
}

for (const [name, host] of Object.entries(hosts))
  test(`repositories of ${name} come with what belongs to them, and again without a change`, async () => {
    const key = await newKeyLine()
    const { answer, asked } = answersOf(host, key)
    using at = await startHttpHost(answer)
    const url = `http://127.0.0.1:${at.port}`
    const words = ['import', '--from', name, url]

    const dry = await home.run([...words, '--dry-run', '--json'], { input: `${token}\n` })
    assert.equal(dry.code, 0, dry.err)
    assert.deepEqual(JSON.parse(dry.out)[0], {
      source: `${url}/acme/site.git`,
      name: 'site',
      visibility: 'public',
      protectedBranches: ['main', 'free/*'],
      deployKeys: 1,
      webhooks: 1,
      note: '',
    })
    assert.deepEqual((await service.admin.get('/repos')).body, [])

    const first = await home.run(words, { input: `${token}\n` })
    assert.equal(first.code, 1)
    assert.match(first.out, /^Imported site\.\nImported other\.\n2 imported, 0 .*, 2 failed\./m)
    assert.match(first.err, /bob\/site\.git\. The name is that of .*acme\/site\.git; import it/)
    assert.match(first.err, /The name is not possible here\./)
    assert.match(first.err, /to do: Protect free\/\*/)
    assert.match(first.err, /to do: .*https:\/\/ci\.example\.com\/hook/)
    assert.match(first.err, /to do: Not read, .*: deploy keys, webhooks, protected branches\./)
    const { body } = await service.admin.get('/repos/site')
    assert.deepEqual(
      [body.description, body.visibility, body.protectedBranches, body.empty],
      ['The site', 'public', ['main'], false],
    )
    assert.equal((await service.admin.get('/repos/other')).body.visibility, 'private')
    const rule = (await service.admin.get('/repos/site/protections/branches')).body.rules[0]
    assert.equal(rule.owners, 'fast-forward')
    const { body: keys } = await service.admin.get('/keys')
    assert.deepEqual(
      keys.map((one: { name: string; permissions: string[]; repositories: string[] }) => [
        one.name,
        one.permissions,
        one.repositories,
      ]),
      [['deployer', ['repo:read'], ['site']]],
    )
    const basic = Buffer.from(asked[0]?.replace('Basic ', '') ?? '', 'base64').toString()
    assert.match(basic, new RegExp(`:${token}$`))

    await service.admin.patch('/repos/site', { description: 'Ours', visibility: 'private' })
    await service.admin.delete('/repos/site/protections/branches/main')
    await service.admin.delete(`/keys/${keys[0].id}`)
    const again = await home.run(words, { input: `${token}\n` })
    assert.match(again.out, /^site is here already\.\nother is here already\.\n0 imported, 2 here/m)
    assert.match(again.err, /to do: Add the deploy key deployer/)
    const { body: later } = await service.admin.get('/repos/site')
    assert.deepEqual(
      [later.description, later.visibility, later.protectedBranches],
      ['Ours', 'private', []],
    )
    assert.deepEqual((await service.admin.get('/keys')).body, [])

    await service.admin.delete('/repos/other')
    await service.admin.delete('/repos/site')
    // Another repository of the name, which is not that of the host.
    await service.admin.post('/repos', { name: 'site' })
    const taken = await home.run(words, { input: `${token}\n` })
    assert.match(
      taken.err,
      /acme\/site\.git\. site is another repository that is here, and did not/,
    )
    for (const one of ['site', 'other']) await service.admin.delete(`/repos/${one}`)
  })

describe('faults of hosts and folders are one line', () => {
  const cases: [string, (url: string) => string[], string, RegExp, number][] = [
    ['a wrong token', (url) => ['--from', 'gitea', url], 'wrong', /refuses the token/, 4],
    ['no token', (url) => ['--from', 'gitea', url], '', /This is not a token/, 1],
    ['a name beside', (url) => ['--from', 'gitea', url, 'x'], token, /the only argument/, 2],
    ['no address', () => ['--from', 'gitea', 'example.com'], token, /Give the address of/, 2],
    ['another host', (url) => ['--from', 'gitlab', url], token, /does not list repositories/, 4],
    ['no folder', () => ['--all', '/nonexistent'], '', /there is nothing at this path/, 1],
    ['two sources', () => ['--all', '/srv', 'x'], '', /--all takes the folder/, 2],
    ['no such visibility', () => ['--all', '/srv', '--visibility', 'x'], '', /not "x"/, 2],
    ['a visibility of one', () => ['/srv/x', '--visibility', 'internal'], '', /is for --all/, 2],
    ['a dry run of one', () => ['/srv/x', '--dry-run'], '', /--dry-run is for/, 2],
    ['nothing', () => [], '', /Give the source/, 2],
  ]
  for (const [title, toWords, input, expected, code] of cases)
    test(title, async () => {
      using at = await startHttpHost(answersOf(hosts.gitea, '').answer)
      const ended = await home.run(['import', ...toWords(`http://127.0.0.1:${at.port}`)], { input })
      assert.deepEqual([ended.code, ended.out], [code, ''])
      assert.match(ended.err, /^svc: [^\n]*\n$/)
      assert.match(ended.err, expected)
    })
})

test('a host that sends too much is left', async () => {
  const repository = { data: [{ full_name: 'a/b', private: true }] }
  const page = [{ title: 'x'.repeat(7_000_000) }]
  let pages = 0
  using at = await startHttpHost(({ url = '' }, response) => {
    if (!url.includes('/keys?')) return void response.end(JSON.stringify(repository))
    pages += 1
    response.setHeader('link', '<?page=2>; rel="next"')
    response.end(JSON.stringify(page))
  })
  using large = await startHttpHost((_, response) => response.end(Buffer.alloc(9_000_000, ' ')))
  for (const [{ port }, expected] of [
    [large, /sends too much/],
    [at, /The list .*\/keys is too long/],
  ] as const) {
    const words = ['import', '--from', 'gitea', `http://127.0.0.1:${port}`, '--dry-run']
    const ended = await home.run(words, { input: token })
    assert.match(ended.err, expected)
    assert.equal(ended.code, 3)
  }
  assert.equal(pages, 3)
})

test('every repository in a folder is imported; those that are here and other ones of a name stay as they are', async () => {
  await using folder = await temporaryFolder()
  await mkdir(join(folder.path, 'deep/er'), { recursive: true })
  await service.admin.post('/namespaces', { name: 'Er' })
  await project.git('clone', '--quiet', '--bare', '.', join(folder.path, 'bare.git'))
  await project.git('clone', '--quiet', '.', join(folder.path, 'deep/er/tree'))
  const listed = await home.svc(['import', '--all', folder.path, '--dry-run'])
  assert.match(listed, /bare\.git/)
  assert.match(listed, /deep\/er\/tree/)
  const done = await home.svc(['import', '--all', folder.path])
  assert.equal(done, 'Imported bare.\nImported Er/tree.\n2 imported, 0 here already, 0 failed.\n')
  await service.admin.patch('/repos/bare', { visibility: 'public' })
  await service.admin.patch('/repos/bare', { visibility: 'private' })
  const again = await home.svc(['import', '--all', folder.path, '--visibility', 'internal'])
  assert.match(again, /^bare is here already\.\nEr\/tree is here already\.\n0 imported/)
  const visibilityOf = async (name: string) =>
    (await service.admin.get(`/repos/${encodeURIComponent(name)}`)).body.visibility
  assert.deepEqual(
    [await visibilityOf('bare'), await visibilityOf('Er/tree')],
    ['private', 'internal'],
  )
  assert.equal((await service.admin.get('/repos/Er%2Ftree')).body.empty, false)

  // It comes before the one that has its name.
  await project.git('clone', '--quiet', '--bare', '.', join(folder.path, 'above/bare.git'))
  await project.git('clone', '--quiet', '--bare', '.', join(folder.path, 'empty.git'))
  await service.admin.post('/repos', { name: 'empty' })
  for (const name of ['above/bare', 'empty']) {
    const source = join(folder.path, `${name}.git`)
    const note = `${name.replace('above/', '')} is another repository that is here, and did not come from ${source}, or too long ago for the event log; import it under another name: svc import ${source} NAME`
    const planned = await home.svc(['import', '--all', folder.path, '--dry-run', '--json'])
    const row = JSON.parse(planned).find((one: { source: string }) => one.source === source)
    assert.equal(row.note, note)
    const others = await home.run(['import', '--all', folder.path])
    assert.equal(others.code, 1)
    assert.match(others.out, /^bare is .*\.\nEr\/tree is here already\.\n0 .*, 2 failed\.\n$/)
    assert.ok(others.err.includes(`Not imported: ${source}. ${note}\n`), others.err)
  }
  assert.equal((await service.admin.get('/repos/empty')).body.empty, true)
  // The data directory has the same events.
  const local = ['import', '--all', folder.path, '--server', 'local']
  const offline = await home.run(local, { env: { SVC_DATA_DIR: service.dataDir } })
  assert.match(offline.out, /^bare is here already\.\nEr\/tree is here already\.\n0 .*, 2 failed/)
})
