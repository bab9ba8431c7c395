// Tags: each-store

import assert from 'node:assert/strict'
import type { ServerResponse } from 'node:http'
import { after, before, test } from 'node:test'
import { exhaustive } from '../support/exhaustive.ts'
import { createProject, type Project } from '../support/git.ts'
import { openPushRecords } from '../support/push-records.ts'
import { gitHeaders, pushBody } from '../support/raw-git.ts'
import { startReceiver } from '../support/receiver.ts'
import type { Client } from '../support/service.ts'
import { type SshSite, startSshSite } from '../support/ssh-site.ts'
import { pushFiles } from '../support/workflow-site.ts'

// Nothing here waits: what an acknowledged push has changed must be there at once, each time.
const pushes = 8
const workflow = 'on: push\nsteps:\n  - run: true\n'

let site: SshSite
let project: Project
let admin: Client

before(async () => {
  site = await startSshSite()
  admin = site.service.admin
  project = await createProject()
})

after(async () => {
  await site[Symbol.asyncDispose]()
  await project[Symbol.asyncDispose]()
})

const transports = {
  http: () => project.git('push', '--quiet', admin.remote('site'), 'HEAD:main'),
  ssh: () => site.git(project.path, ['push', '--quiet', site.remote(), 'HEAD:main']),
}

for (const [transport, push] of Object.entries(transports)) {
  test(`a push over ${transport} has its event, its record and its deliveries when it is acknowledged`, async () => {
    await using receiver = await startReceiver()
    const { body: webhook } = await admin.post('/repos/site/webhooks', {
      url: receiver.url,
      events: ['push'],
    })
    for (let number = 0; number < pushes; number++) {
      const commit = await project.commit(`${transport}-${number}.txt`)
      await push()
      const deliveries = await admin.get(`/repos/site/webhooks/${webhook.id}/deliveries`)
      const events = await admin.get('/events?repository=site&kind=push&limit=1000')
      const listed = await admin.get('/repos/site/pushes')
      assert.equal(deliveries.body.length, number + 1)
      assert.equal(events.body.at(-1).data.after, commit)
      assert.equal(listed.body[0].refs[0].after, commit)
    }
    assert.equal((await admin.delete(`/repos/site/webhooks/${webhook.id}`)).status, 204)
  })

  test(`a webhook that is created after a push over ${transport} is not called for it`, async () => {
    await using receiver = await startReceiver()
    const ids: string[] = []
    for (let number = 0; number < pushes; number++) {
      await project.commit(`${transport}-before-${number}.txt`)
      await push()
      const { body } = await admin.post('/repos/site/webhooks', {
        url: receiver.url,
        events: ['push'],
      })
      ids.push(body.id)
    }
    const found = await Promise.all(
      ids.map((id) => admin.get(`/repos/site/webhooks/${id}/deliveries`)),
    )
    // Each is called for the pushes after its creation alone.
    assert.deepEqual(
      found.map(({ body }) => body.length),
      ids.map((_, number) => pushes - 1 - number),
    )
    for (const id of ids) await admin.delete(`/repos/site/webhooks/${id}`)
  })
}

test(
  'a client without side-band finds the event when it reads the first byte of the report',
  exhaustive,
  async () => {
    await admin.post('/repos', { name: 'plain' })
    using records = openPushRecords(site.service.dataDir)
    for (let number = 0; number < pushes; number++) {
      const body = await pushBody(project.path, `branch-${number}`)
      const response = await fetch(`${site.service.url}/repos/plain.git/git-receive-pack`, {
        method: 'POST',
        // Node's fetch counts the bytes by itself.
        headers: toStrings(gitHeaders('git-receive-pack', admin.token)),
        body,
      })
      const reader = response.body?.getReader() ?? assert.fail('no answer')
      const { value } = await reader.read()
      const recorded = records.eventsAfter(0).pushes.map(({ ref }) => ref)
      assert.match(Buffer.from(value ?? []).toString(), /unpack ok/)
      assert.ok(recorded.includes(`refs/heads/branch-${number}`), recorded.join())
      await reader.cancel()
    }
  },
)

test(
  'a deleted webhook gets no further requests, not even those in flight',
  exhaustive,
  async () => {
    const open: ServerResponse[] = []
    await using receiver = await startReceiver((_received, response) => void open.push(response))
    const { body: webhook } = await admin.post('/repos/site/webhooks', {
      url: receiver.url,
      events: ['push'],
    })
    for (let number = 0; number < pushes; number++) {
      await project.commit(`deleted-${number}.txt`)
      await transports.http()
    }
    await receiver.untilReceived(1)
    const first = open[0] ?? assert.fail('nothing was sent')
    let isCut = false
    first.once('close', () => {
      isCut = true
    })
    assert.equal((await admin.delete(`/repos/site/webhooks/${webhook.id}`)).status, 204)
    // What was closed before that answer has been seen here by the next one.
    await admin.get('/health')
    assert.ok(isCut)
    const { length } = receiver.received
    // Once these are delivered, the delivery loop has handled everything before them.
    await using other = await startReceiver()
    await admin.post('/repos/site/webhooks', { url: other.url, events: ['push'] })
    for (let number = 0; number < pushes; number++) {
      await project.commit(`other-${number}.txt`)
      await transports.http()
    }
    await other.untilReceived(pushes)
    assert.equal(receiver.received.length, length)
  },
)

test('the runs of a push are listed when it is acknowledged', exhaustive, async () => {
  for (let number = 0; number < pushes; number++) {
    const files = { '.svc/workflows/ci.yml': workflow, 'number.txt': String(number) }
    const commit = await pushFiles(admin, 'runs', files)
    const { body } = await admin.get('/repos/runs/workflows')
    assert.equal(body.length, number + 1)
    assert.equal(body[0].commit, commit)
  }
})

test('an undo has its event when its response arrives', async () => {
  const { body } = await admin.get('/repos/site/pushes')
  const { status, body: undo } = await admin.post(`/repos/site/pushes/${body[0].id}/undo`)
  assert.equal(status, 200)
  const events = await admin.get('/events?repository=site&kind=push&limit=1000')
  assert.equal(events.body.at(-1).data.pushId, undo.id)
})

function toStrings(headers: Record<string, string | number>): Record<string, string> {
  const { 'transfer-encoding': _, ...rest } = headers
  return Object.fromEntries(Object.entries(rest).map(([name, value]) => [name, String(value)]))
}
