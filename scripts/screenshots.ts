import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { openWindow, startBrowser } from '../test/support/browser.ts'
import { until } from '../test/support/condition.ts'
import { programs } from '../test/support/programs.ts'
import { type Client, createClient, type Service, startService } from '../test/support/service.ts'
import { type DemoCommit, type DemoRepository, demoRepositories } from './demo/history.ts'

// Takes the pictures of the README: starts a service whose clock begins 13 weeks ago, plays a history to it with real
// pushes and runs, and photographs its pages. Needs Chromium, libfaketime and bubblewrap.
const pictures = join(import.meta.dirname, '../docs/pictures')
const folder = mkdtempSync(join(tmpdir(), 'svc-demo-'))
const clockFile = join(folder, 'clock')
const hourMs = 3_600_000
const users = ['Ada', 'Grace', 'Linnea']

type Step = { at: number; repository: DemoRepository; commit: DemoCommit }

const now = Date.now()
const steps: Step[] = demoRepositories
  .flatMap((repository) =>
    repository.commits.map((commit) => ({
      at: now - commit.hoursAgo * hourMs,
      repository,
      commit,
    })),
  )
  .sort((one, other) => one.at - other.at)

try {
  setClock(steps[0]?.at ?? now)
  await using service = await startService({
    env: {
      SVC_RUNNER: 'on',
      LD_PRELOAD: programs.faketime.find() ?? '',
      FAKETIME_TIMESTAMP_FILE: clockFile,
      FAKETIME_NO_CACHE: '1',
      FAKETIME_DONT_FAKE_MONOTONIC: '1',
      NO_FAKE_STAT: '1',
    },
  })
  const clients = await createUsers(service)
  for (const step of steps) {
    if (step === steps.at(-1)) await protect(clients)
    await play(step, service, clients)
  }
  setClock(now)
  await photograph(service, clients)
} finally {
  rmSync(folder, { recursive: true, force: true })
}

function setClock(at: number): void {
  const text = new Date(at).toISOString().slice(0, 19).replace('T', ' ')
  writeFileSync(clockFile, `@${text}\n`)
}

async function createUsers(service: Service): Promise<Map<string, Client>> {
  const permissions = [
    ...['repo:read', 'repo:write', 'repo:delete', 'collaborator:read', 'collaborator:write'],
    ...['workflow:trigger', 'workflow:read', 'secrets:read', 'webhook:read', 'webhook:write'],
  ]
  const clients = new Map<string, Client>()
  for (const name of users) {
    const { body } = await service.admin.post('/tokens', {
      name: 'laptop',
      username: name.toLowerCase(),
      permissions,
      expiresInDays: 365,
    })
    clients.set(name, createClient(service.url, body.token))
  }
  return clients
}

/** Pushes a commit at its time, and waits for its run. */
async function play(
  { at, repository, commit }: Step,
  service: Service,
  clients: Map<string, Client>,
) {
  setClock(at)
  const client = clients.get(commit.author) ?? service.admin
  const clone = join(folder, repository.name)
  const date = new Date(at).toISOString()
  const git = (...words: string[]) =>
    execFileSync('git', ['-C', clone, ...words], {
      env: {
        ...process.env,
        GIT_AUTHOR_DATE: date,
        GIT_COMMITTER_DATE: date,
        GIT_AUTHOR_NAME: commit.author,
        GIT_AUTHOR_EMAIL: `${commit.author.toLowerCase()}@example.com`,
        GIT_COMMITTER_NAME: commit.author,
        GIT_COMMITTER_EMAIL: `${commit.author.toLowerCase()}@example.com`,
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
  if (repository.commits[0] === commit) await create(repository, clients, clone)
  for (const [path, content] of Object.entries(commit.files)) {
    mkdirSync(dirname(join(clone, path)), { recursive: true })
    writeFileSync(join(clone, path), content, { mode: content.startsWith('#!') ? 0o755 : 0o644 })
  }
  git('add', '.')
  git('commit', '-qm', commit.message)
  git('push', '-q', client.remote(repository.name), 'HEAD:main')
  await until('the run ended', async () => {
    const { body } = await service.admin.get(`/repos/${repository.name}/workflows`)
    return body.every(({ status }: { status: string }) => status === 'completed')
  })
}

async function create(repository: DemoRepository, clients: Map<string, Client>, clone: string) {
  const { name, description } = repository
  const owner = clients.get('Ada')
  if (!owner) throw new Error('no owner')
  await owner.post('/repos', { name })
  if (description !== '') await owner.patch(`/repos/${name}`, { description })
  for (const username of ['grace', 'linnea']) {
    await owner.post(`/repos/${name}/collaborators`, { username, role: 'write' })
  }
  execFileSync('git', ['init', '-q', '-b', 'main', clone])
}

/** Shortly before the end, since only the owner can push then. */
async function protect(clients: Map<string, Client>): Promise<void> {
  setClock(now - 20 * hourMs)
  for (const { name, protects } of demoRepositories) {
    for (const pattern of protects) {
      await clients.get('Ada')?.put(`/repos/${name}/protections/branches/${pattern}`)
    }
  }
}

async function photograph(service: Service, clients: Map<string, Client>): Promise<void> {
  const ada = clients.get('Ada')
  const { body: runs } = await service.admin.get('/repos/atlas/workflows')
  const { body: commits } = await service.admin.get('/repos/atlas/commits?path=src/tile.ts')
  const pages = {
    home: '/',
    commit: `/r/atlas/commit/${commits[0].id}?split`,
    run: `/r/atlas/runs/${runs[0].number}`,
  }
  mkdirSync(pictures, { recursive: true })
  const browser = await startBrowser()
  try {
    const eyes = { width: 1360, scheme: 'light', hasScripts: true } as const
    const { page } = await openWindow(browser, {
      ...eyes,
      url: service.url,
      token: ada?.token ?? '',
    })
    for (const [name, path] of Object.entries(pages)) {
      await page.goto(path)
      // Again, with everything highlighted, however busy the machine is.
      await page.reload()
      await page.screenshot({ path: join(pictures, `${name}.png`) })
    }
  } finally {
    await browser.close()
  }
}
