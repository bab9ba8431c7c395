/** The kinds of events that a webhook can subscribe to. */
export const subscribableKinds = ['push', 'workflow'] as const
