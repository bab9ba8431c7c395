import assert from 'node:assert/strict'
import { mkdir, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { until } from './condition.ts'
import { temporaryFolder } from './git.ts'
import { leftoversIn, repositoryFolders, untilTidy } from './leftovers.ts'
import { processesIn } from './processes.ts'
import { isSoak } from './rounds.ts'
import { type Answer, type Client, startService, toAnswer } from './service.ts'

export type ImportSite = Awaited<ReturnType<typeof startImportSite>>

// The import itself is the same with a caller that waits and without one: every fifth shows that its failure is, too.
const triedTwice = 5

/** How an import must fail: `detail` is what its sentence says. */
export type RefusedRequestError = { detail: RegExp; status?: number; code?: string }

type Options = {
  env?: Record<string, string>
  /** The data directory, by default one of its own. */
  dataDir?: string
  program?: string
}

/** A service to import into, and a folder with what tries to get in. */
export async function startImportSite({ env = {}, ...options }: Options = {}) {
  await using starting = new AsyncDisposableStack()
  const folder = starting.use(await temporaryFolder())
  const service = starting.use(await startService({ ...options, env }))
  const canaries = join(folder.path, 'canaries')
  await mkdir(canaries)
  let count = 0
  let refusals = 0
  const started = starting.move()

  /** Asks for an import; with `Prefer: respond-async` its answer does not wait for the end. */
  async function post(
    client: Client,
    body: { source: string; name: string },
    isAsync = false,
  ): Promise<Answer> {
    const response = await fetch(`${service.url}/repos/import`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${client.token}`,
        'content-type': 'application/json',
        ...(isAsync && { prefer: 'respond-async' }),
      },
      body: JSON.stringify(body),
    })
    return toAnswer(response)
  }

  /** Asserts that nothing is there but what was there before: no name, no file, no process, and nothing was run. */
  async function assertUntouched(name: string, before: string[]): Promise<void> {
    await untilTidy(service.dataDir)
    assert.deepEqual(await repositoryFolders(service.dataDir), before)
    await until('no git is left', () => processesIn(service.dataDir).length === 0)
    assert.deepEqual(await readdir(canaries), [], 'something was executed')
    assert.equal((await service.admin.post('/repos', { name })).status, 201)
    assert.equal((await service.admin.delete(`/repos/${name}`)).status, 204)
  }

  function assertSentence(detail: string, { detail: expected }: RefusedRequestError): void {
    assert.match(detail, expected, `${expected}: ${detail}\n${service.log().slice(-1500)}`)
    assert.match(detail, /^\S.{10,600}[."]$/s)
    assert.ok(!detail.includes(service.dataDir), detail)
    assert.doesNotMatch(detail, /\p{Cc}|fatal:|error:|staging|\bat \S+:\d+:\d+|node:/u)
  }

  return {
    service,
    folder: folder.path,
    post,

    /** A path that is free. */
    path: (name = 'source') => join(folder.path, `${name}-${count++}`),

    /** A command that leaves a trace; it must never run. */
    canary: (name: string) => `touch ${join(canaries, name)}`,

    /** Imports what must come in whole; its name. */
    async imported(source: string, client = service.admin): Promise<string> {
      const name = `wanted-${count++}`
      const answer = await post(client, { source, name })
      assert.equal(answer.status, 201, answer.text + service.log().slice(-2000))
      assert.deepEqual(await readdir(canaries), [], 'something was executed')
      assert.deepEqual(await leftoversIn(service.dataDir), [])
      return name
    },

    /**
     * Asserts that an import fails with a sentence and leaves nothing; some of the imports, all in the soak, also
     * without a caller that waits.
     */
    async refused(
      source: string,
      refusal: RefusedRequestError,
      client = service.admin,
    ): Promise<string> {
      const { status = 422 } = refusal
      const name = `hostile-${count++}`
      const before = await repositoryFolders(service.dataDir)
      const detail = await refusedAtOnce({ source, name }, refusal, client)
      await assertUntouched(name, before)
      const isTriedTwice = isSoak || refusals++ % triedTwice === 0
      if (status === 422 && isTriedTwice) await refusedLater({ source, name }, refusal, client)
      return detail
    },

    /** Asserts that imports of all of these sources fail with the sentence, and together leave nothing. */
    async refusedAll(
      sources: readonly string[],
      refusal: RefusedRequestError,
      client = service.admin,
    ): Promise<void> {
      const name = `hostile-${count++}`
      const before = await repositoryFolders(service.dataDir)
      for (const source of sources) await refusedAtOnce({ source, name }, refusal, client)
      await assertUntouched(name, before)
    },

    [Symbol.asyncDispose]: () => started.disposeAsync(),
  }

  async function refusedAtOnce(
    body: { source: string; name: string },
    refusal: RefusedRequestError,
    client: Client,
  ): Promise<string> {
    const { status = 422, code = 'import_failed' } = refusal
    const answer = await post(client, body)
    const detail = answer.status === 500 ? service.log().slice(-3000) : answer.text
    assert.deepEqual([answer.status, answer.body?.code], [status, code], `${body.source} ${detail}`)
    assertSentence(answer.body.detail, refusal)
    assert.equal((await service.admin.get(`/repos/${body.name}`)).status, 404)
    return answer.body.detail
  }

  async function refusedLater(
    body: { source: string; name: string },
    refusal: RefusedRequestError,
    client: Client,
  ): Promise<void> {
    const before = await repositoryFolders(service.dataDir)
    const begun = await post(client, body, true)
    assert.equal(begun.status, 202, begun.text)
    const failed = await until('the import has failed', async () => {
      const { body: now } = await client.get(`/repos/${body.name}`)
      return now.state === 'failed' && now
    })
    assert.equal(failed.import.fault.code, refusal.code ?? 'import_failed')
    assertSentence(failed.import.fault.detail, refusal)
    await assertUntouched(body.name, before)
  }
}
