import { createPublish } from '#events/events.ts'
import { enqueueDeliveries } from '#webhooks/enqueue-store.ts'

/** Publishes events as the service does. */
export const publish = createPublish([enqueueDeliveries])
