import { apiPathOf, toNamespaceOperation } from '#base/repository-name.ts'
import type { PageContext, View } from '../page.ts'
import type { ReadOperation } from '../read-operations.ts'

/** Pages of webhooks that repositories and namespaces have alike. */
export type WebhooksOf = {
  /** The path of the list of webhooks; the other pages are below it. */
  path: string
  toOperation: <O extends string>(operationId: O) => O
  name: (context: PageContext) => string
  /** The address of the list of webhooks. */
  address: (context: PageContext) => string
  /** Where the pages belong, before their own crumbs. */
  place: (context: PageContext) => Pick<View, 'repository' | 'tab'> & {
    crumbs: NonNullable<View['crumbs']>
    json: string
  }
}

const ofRepository: WebhooksOf = {
  path: '/r/:name/webhooks',
  toOperation: (operationId) => operationId,
  name: ({ params }) => params.name ?? '',
  address: ({ to, params }) => to.of(params.name ?? '', 'webhooks'),
  place: ({ params: { name = '' } }) => ({
    repository: name,
    tab: 'webhooks',
    crumbs: [],
    json: `${apiPathOf(name)}/webhooks`,
  }),
}

const ofNamespace: WebhooksOf = {
  path: '/-/namespaces/:namespace/webhooks',
  // Their values differ from those of repositories in the names of what they belong to.
  toOperation: <O extends string>(operationId: O) => toNamespaceOperation(operationId) as O,
  name: ({ params }) => params.namespace ?? '',
  address: ({ to, params }) => `${to.namespace(params.namespace ?? '')}/webhooks`,
  place: ({ to, params: { namespace = '' } }) => ({
    crumbs: [{ text: namespace, href: to.namespace(namespace) }],
    json: `/namespaces/${encodeURIComponent(namespace)}/webhooks`,
  }),
}

export const allWebhooksOf = [ofRepository, ofNamespace]

/** The operations that a page reads, in the words of what it is about. */
export function readOperations(
  { toOperation }: WebhooksOf,
  ...ids: [ReadOperation, ...ReadOperation[]]
): [ReadOperation, ...ReadOperation[]] {
  const [first, ...others] = ids
  return [toOperation(first), ...others.map(toOperation)]
}
