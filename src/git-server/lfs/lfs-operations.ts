export const lfsOperations = ['download', 'upload'] as const

/** What a client does with objects. */
export type LfsOperation = (typeof lfsOperations)[number]
