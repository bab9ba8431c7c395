import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { pages } from '#web/serve/page-list.ts'
import { createProject } from '../support/git.ts'
import { createPageClient, logIn } from '../support/page-client.ts'
import { type Service, startService } from '../support/service.ts'

for (const allowed of ['off', 'code', 'all'] as const) {
  describe(`anonymous readers with ${allowed}`, () => {
    let service: Service
    let commit: string

    before(async () => {
      service = await startService({
        env: {
          SVC_WEB_ANONYMOUS_READ: allowed,
          SVC_REQUESTS_PER_SECOND: '100',
          SVC_REQUEST_BURST: '200',
        },
      })
      await service.admin.post('/repos', { name: 'site' })
      await using project = await createProject()
      await writeFile(join(project.path, 'a.txt'), 'text\n')
      commit = await project.commit('a.txt')
      await project.git('push', '--quiet', service.admin.remote('site'), 'main')
    })
    after(() => service[Symbol.asyncDispose]())

    test('open the pages of their audience, and are led to the login from others', async () => {
      const client = createPageClient(service.url)
      for (const page of pages) {
        if (page.kind !== 'page') continue
        const path = page.path
          .replace(':name', 'site')
          .replace(':target*', 'main')
          .replaceAll(/:\w+\*?/g, '1')
        const { status, location } = await client.get(path)
        const isOpen =
          page.audience === 'code'
            ? allowed !== 'off'
            : page.audience === 'all' && allowed === 'all'
        const isLogin = location?.startsWith('/-/login') ?? false
        assert.equal(isLogin, !isOpen, `${path} ${status} ${location}`)
      }
    })

    test('get files of a commit by its id with all, and no search engine keeps them', async () => {
      const client = createPageClient(service.url)
      for (const rev of [
        commit,
        commit.slice(0, 7),
        `%${Buffer.from(commit[0] ?? '').toString('hex')}${commit.slice(1)}`,
      ]) {
        const { location, headers } = await client.get(`/r/site/src/${rev}`)
        assert.equal(location?.startsWith('/-/login') ?? false, allowed !== 'all', rev)
        assert.equal(headers.get('x-robots-tag'), 'noindex')
      }
      assert.equal((await client.get('/r/site/src/main')).headers.get('x-robots-tag'), null)
    })

    test('learn from robots.txt what to read', async () => {
      const { status, text, headers } = await createPageClient(service.url).get('/robots.txt')
      assert.equal(status, 200)
      assert.equal(headers.get('content-type'), 'text/plain; charset=utf-8')
      assert.ok(text.startsWith('User-agent: *\nDisallow: /\n'))
      assert.equal(text.includes('Allow: /r/*/src/'), allowed !== 'off')
    })

    test('change nothing, and see nothing of others', async () => {
      const client = createPageClient(service.url)
      for (const action of pages) {
        if (action.kind !== 'action') continue
        const path = action.path.replace(':name', 'site').replaceAll(/:\w+\*?/g, '1')
        const { status, location } = await client.post(path, { name: 'x' })
        assert.deepEqual([status, location?.startsWith('/-/login')], [303, true], path)
      }
      const { text, status } = await client.get('/')
      if (status === 200) assert.doesNotMatch(text, /avatar|Log out|href="\/-\/(?!login)(?!assets)/)
    })

    test('are limited by their network, and people by their token', async () => {
      const client = createPageClient(service.url)
      const member = await logIn(service.url, service.adminToken)
      // More than the burst: 200, of which a page of files takes 5.
      const answers = await Promise.all(
        Array.from({ length: 200 }, () => client.get('/r/site/src/main')),
      )
      const limited = answers.filter(({ status }) => status === 429)
      assert.equal(limited.length > 0, allowed !== 'off')
      for (const { headers } of limited) assert.match(headers.get('retry-after') ?? '', /^\d+$/)
      assert.equal((await member.get('/r/site/src/main')).status, 200)
    })
  })
}

test('below a path of its host, all addresses and the cookie have the path', async () => {
  await using service = await startService({
    env: { SVC_BASE_URL: 'https://example.com/git', SVC_WEB_ANONYMOUS_READ: 'code' },
  })
  const client = createPageClient(service.url)
  const robots = await client.get('/robots.txt')
  assert.match(robots.text, /^Disallow: \/git\/$/m)
  const { headers, location } = await client.post('/-/login', {
    token: service.adminToken,
    next: '/-/new',
  })
  assert.equal(location, '/git/-/new')
  assert.match(
    headers.get('set-cookie') ?? '',
    /^__Secure-svc=[\w-]{43}; Max-Age=\d+; Path=\/git\/; HttpOnly; SameSite=Lax; Secure$/,
  )
  const { text } = await client.get('/')
  const addresses = [...text.matchAll(/(?:href|src|action)="([^"]*)"/g)].map(([, to]) => to ?? '')
  assert.deepEqual(
    addresses.filter((to) => !/^(?:\/git\/|#)/.test(to)),
    [],
  )
  const { body } = await service.admin.post('/login-codes')
  assert.match(body.url, /^https:\/\/example\.com\/git\/-\/login\/[\w-]{43}$/)
})
