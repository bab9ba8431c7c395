// Tags: exhaustive
import { after, before, test } from 'node:test'
import { messages } from '#ssh/messages.ts'
import { message } from '#ssh/wire.ts'
import { until } from '../support/condition.ts'
import { assertFrugal } from '../support/memory.ts'
import { commandOf, processesIn } from '../support/processes.ts'
import { without } from '../support/programs.ts'
import { cloneBody } from '../support/raw-git.ts'
import type { RawSsh } from '../support/raw-ssh.ts'
import { createLargeProject, execRequest, type SshSite, startSshSite } from '../support/ssh-site.ts'

const mib = 1024 * 1024
const skip = without('openssh')
const clients = 8
const endlessWindow = 2 ** 32 - 1

let site: SshSite
let head: string

before(async () => {
  if (skip) return
  site = await startSshSite({ env: { SVC_GIT_STALL_SECONDS: '10' } })
  // More than the buffers of the system and of a frugal server hold.
  await using project = await createLargeProject(24 * mib)
  head = await project.git('rev-parse', 'HEAD')
  await project.git('push', '--quiet', site.service.admin.remote('site'), 'HEAD:main')
  // What the server takes for its first clients it would take anyway.
  await Promise.all(
    Array.from({ length: clients }, () =>
      site.git('/', ['clone', '--quiet', '--bare', '--depth=1', site.remote(), site.newFolder()]),
    ),
  )
})

after(() => site?.[Symbol.asyncDispose]())

test('clients that stop reading cost little memory and are ended', { skip }, async () => {
  const stuck: RawSsh[] = []
  await assertFrugal(site.service, async () => {
    for (let number = 0; number < clients; number++) {
      const client = await startClone(endlessWindow)
      stuck.push(client)
      await client.next(messages.channelData)
      client.socket.pause()
    }
    await site.untilNothingIsLeft()
  })
  await allAreEnded(stuck)
})

test('clients that stop reading amid an exchange of keys cost little memory and are ended', {
  skip,
}, async () => {
  const stuck: RawSsh[] = []
  await assertFrugal(site.service, async () => {
    for (let number = 0; number < clients; number++) {
      const client = await startClone(endlessWindow)
      stuck.push(client)
      await client.next(messages.channelData)
      client.rekey()
      client.socket.pause()
    }
    await site.untilNothingIsLeft()
  })
  await allAreEnded(stuck)
})

test('clients that open no window cost little memory and are ended', { skip }, async () => {
  await assertFrugal(site.service, async () => {
    for (let number = 0; number < clients; number++) await startClone(0)
    const seen = new Set<number>()
    await until('each has had a git of its own', () => {
      for (const pid of clonesRunning()) seen.add(pid)
      return seen.size === clients
    })
    await site.untilNothingIsLeft()
  })
})

/** Begins a clone, with what a client says of its window. */
async function startClone(window: number): Promise<RawSsh> {
  const client = await site.connect()
  const channel = await client.openSession(window)
  client.send(execRequest(channel, "git-upload-pack '/site.git'"))
  client.send(message(messages.channelData, channel, cloneBody(head)))
  return client
}

function clonesRunning(): number[] {
  return processesIn(site.service.dataDir).filter((pid) => / upload-pack /.test(commandOf(pid)))
}

async function allAreEnded(stuck: RawSsh[]): Promise<void> {
  for (const client of stuck) {
    client.socket.resume()
    await client.next(messages.channelClose, messages.disconnect)
    client.socket.destroy()
  }
}
