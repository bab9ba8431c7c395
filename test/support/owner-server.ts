import assert from 'node:assert/strict'
import { temporaryFolder } from './git.ts'
import { startServiceWithSsh } from './service.ts'

export type OwnerServer = Awaited<ReturnType<typeof startOwnerServer>>

/** A server, a client of Ada, who owns repositories there, and a folder for clones. */
export async function startOwnerServer() {
  const service = await startServiceWithSsh()
  const folder = await temporaryFolder()
  const owner = await service.client({ username: 'ada', permissions: ['repo:read', 'repo:write'] })
  return {
    service,
    owner,
    folder: folder.path,
    async create(name: string): Promise<void> {
      assert.equal((await owner.post('/repos', { name })).status, 201)
    },
    async [Symbol.asyncDispose]() {
      await service[Symbol.asyncDispose]()
      await folder[Symbol.asyncDispose]()
    },
  }
}
