import { createPublish } from '../../src/events/events.ts'
import { enqueueDeliveries } from '../../src/webhooks/enqueue-store.ts'

/** Publishes events as the service does. */
export const publish = createPublish([enqueueDeliveries])
