import type { Principal } from '#access/principal.ts'
import { Problem } from '#base/problem.ts'
import type { Sessions } from './sessions.ts'

/** An address that logs a browser in once, until `expiresAt`. */
export type LoginLink = { url: string; expiresAt: number }

export const invalidLoginLink = 'The login link is mistyped, expired or was used.'

type LoginLinkOptions = {
  /** The origin that the client called, where it is not the public address of the service. */
  origin?: string | undefined
  lifetimeMs?: number
}

/** Creates a login link for a principal. Throws `route_not_found` if the service has no pages. */
export type CreateLoginLink = (
  principal: Principal,
  options?: LoginLinkOptions,
) => Promise<LoginLink>

type Dependencies = {
  sessions: Pick<Sessions, 'createCode'>
  hasPages: boolean
  /** The public address of the service. */
  baseUrl: () => string
}

export function createLoginLinks({ sessions, hasPages, baseUrl }: Dependencies): CreateLoginLink {
  return async (principal, { origin, lifetimeMs } = {}) => {
    if (!hasPages) throw new Problem('route_not_found', 'This service has no web pages.')
    const { code, expiresAt } = await sessions.createCode(principal, lifetimeMs)
    return { url: `${(origin ?? baseUrl()).replace(/\/$/, '')}/-/login/${code}`, expiresAt }
  }
}

/** The code in a login link, or in a text that is only the code. */
export function loginCodeIn(text: string): string | undefined {
  return /^(?:https?:\/\/\S+\/-\/login\/)?([\w-]{43})$/.exec(text.trim())?.[1]
}
