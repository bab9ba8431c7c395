import assert from 'node:assert/strict'
import { test } from 'node:test'
import { newId } from '#base/ids.ts'
import { startInProcess } from '../support/in-process.ts'

const count = 1234

test('a list without a limit is the whole list, also when it is long', async () => {
  await using service = await startInProcess()
  const { db, admin } = service
  await admin.post('/repos', { name: 'first' })
  const repository = await db.selectFrom('repositories').selectAll().executeTakeFirstOrThrow()
  const token = await db.selectFrom('tokens').selectAll().executeTakeFirstOrThrow()
  await db.transaction().execute(async (tx) => {
    for (let number = 0; number < count; number++) {
      const id = newId()
      const name = `r${number}`
      await tx
        .insertInto('repositories')
        .values({ ...repository, id, name, nameKey: name })
        .execute()
      await tx
        .insertInto('tokens')
        .values({ ...token, id, tokenHash: id })
        .execute()
    }
  })
  for (const path of ['/repos', '/tokens']) {
    const { text, headers, body } = await admin.get(path)
    assert.equal(body.length, count + 1, path)
    assert.equal(text, `${JSON.stringify(body)}\n`)
    assert.equal(headers.get('content-length'), String(Buffer.byteLength(text)))
    assert.equal(headers.get('link'), null)
    const pages: unknown[] = []
    for (let next: string | undefined = `${path}?limit=1000`; next !== undefined; ) {
      const page = await admin.get(next)
      pages.push(...page.body)
      next = /^<(.+)>; rel="next"$/.exec(page.headers.get('link') ?? '')?.[1]
    }
    assert.deepEqual(pages, body)
    const { body: rest } = await admin.get(`${path}?cursor=${body[700].id}`)
    assert.deepEqual(rest, body.slice(701))
  }
})
