import { type About, type Payload, toCommon, toIds, toIso, urlOf } from './about.ts'

type Hook = {
  id: string
  url: string
  events: string[]
  isEnabled: boolean
  createdAt: number
  updatedAt: number
}

/** The payload of a `ping`, which tests a webhook. */
export function pingPayload(hook: Hook, about: About): Payload {
  const { id, url, events, isEnabled, createdAt, updatedAt } = hook
  const address = `${urlOf(about)}/webhooks/${id}`
  return {
    zen: 'An event heard twice is an event not lost.',
    hook_id: toIds(id).id,
    hook: {
      type: 'Repository',
      ...toIds(id),
      name: 'web',
      active: isEnabled,
      events,
      config: { url, content_type: 'json', insecure_ssl: '0' },
      created_at: toIso(createdAt),
      updated_at: toIso(updatedAt),
      url: address,
      ping_url: `${address}/ping`,
      deliveries_url: `${address}/deliveries`,
    },
    ...toCommon(about),
  }
}
