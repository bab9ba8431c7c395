/** Who can read a repository: those with a role in it, every user, or everybody. */
export const visibilities = ['private', 'internal', 'public'] as const

export type Visibility = (typeof visibilities)[number]

/** The visibilities of repositories that every user can read. */
export const openToUsers: readonly Visibility[] = ['internal', 'public']
