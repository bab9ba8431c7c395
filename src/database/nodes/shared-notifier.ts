import { createNotifier, type Notifier } from '#base/concurrency/notifier.ts'
import type { Nodes } from './nodes.ts'

/** A notifier whose changes are also those of the other nodes. */
export function createSharedNotifier(
  nodes: Pick<Nodes, 'send' | 'onMessage'>,
  topic: string,
): Notifier {
  const here = createNotifier()
  const prefix = `${topic}:`
  nodes.onMessage((message) => {
    if (message.startsWith(prefix)) here.notify(message.slice(prefix.length))
  })
  return {
    ...here,
    notify(name) {
      here.notify(name)
      nodes.send(`${prefix}${name}`)
    },
  }
}
