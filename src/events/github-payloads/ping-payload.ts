import { type About, type Payload, toCommon, toIds, toIso, toOrganization, urlOf } from './about.ts'

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
  return { ...toPing(hook, 'Repository', urlOf(about)), ...toCommon(about) }
}

/** The payload of a `ping` of a webhook of a namespace. */
export function namespacePing(
  hook: Hook,
  { name, baseUrl }: { name: string; baseUrl: string },
): Payload {
  const organization = toOrganization(name)
  const ping = toPing(hook, 'Organization', `${baseUrl}/namespaces/${name}`)
  return { ...ping, organization, sender: organization }
}

function toPing(hook: Hook, type: 'Repository' | 'Organization', of: string): Payload {
  const { id, url, events, isEnabled, createdAt, updatedAt } = hook
  const address = `${of}/webhooks/${id}`
  return {
    zen: 'An event heard twice is an event not lost.',
    hook_id: toIds(id).id,
    hook: {
      type,
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
  }
}
