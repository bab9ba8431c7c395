import { join } from 'node:path'
import { newTokenString } from '#base/token-string.ts'
import { until } from './condition.ts'
import { temporaryFolder } from './git.ts'
import { type Client, type Service, startService } from './service.ts'

/** A server that can be ended and started again on the same data, with a repository `site`. */
export async function startWebhookSite(env: Record<string, string> = {}) {
  await using stack = new AsyncDisposableStack()
  const folder = stack.use(await temporaryFolder())
  const dataDir = join(folder.path, 'data')
  const kept = {
    SVC_ADMIN_TOKEN: newTokenString(),
    SVC_WEBHOOK_RETRY_SCHEDULE: '0,0,1,1,1',
  }
  const begin = (more: Record<string, string>) =>
    startService({ dataDir, env: { ...kept, ...env, ...more } })
  let service: Service = stack.use(await begin({}))
  await service.admin.post('/repos', { name: 'site' })
  const owned = stack.move()
  return {
    dataDir,
    service: () => service,
    admin: (): Client => service.admin,

    /** Starts a server where the former one has ended. */
    async startAgain(more: Record<string, string> = {}): Promise<Service> {
      service = owned.use(await begin(more))
      return service
    },

    /** Subscribes a receiver to `site`; returns the id of the webhook. */
    async subscribe(url: string, more: object = {}): Promise<string> {
      const body = { url, events: ['push'], ...more }
      const answer = await service.admin.post('/repos/site/webhooks', body)
      if (answer.status !== 201) throw new Error(answer.text)
      return answer.body.id
    },

    /** Waits until a webhook has a number of deliveries, none pending; returns them, oldest first. */
    async untilDelivered(webhookId: string, count = 1) {
      return until(`${count} deliveries are done`, async () => {
        const deliveries = await listDeliveries(service.admin, webhookId)
        const isDone = deliveries.every(({ status }) => status !== 'pending')
        return isDone && deliveries.length >= count && deliveries
      })
    },

    /** Waits until some of the deliveries of a webhook are done; they, oldest first. */
    async untilDone(webhookId: string, count: number) {
      return until(`${count} of the deliveries are done`, async () => {
        const all = await listDeliveries(service.admin, webhookId)
        const done = all.filter(({ status }) => status !== 'pending')
        return done.length >= count && done
      })
    },

    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

/** All deliveries of a webhook of `site`, oldest first. */
async function listDeliveries(admin: Client, webhookId: string) {
  // biome-ignore lint/suspicious/noExplicitAny: what the API answers is what the tests are about
  const all: any[] = []
  let path: string | undefined = `/repos/site/webhooks/${webhookId}/deliveries`
  while (path !== undefined) {
    const { body, headers } = await admin.get(path)
    all.push(...body)
    const [, next] = /<([^>]*)>; rel="next"/.exec(headers.get('link') ?? '') ?? []
    path = next?.replace(/^https?:\/\/[^/]*/, '')
  }
  return all.reverse()
}
