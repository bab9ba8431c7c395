import { icon } from './icons.ts'
import { type Html, html } from './render/html.ts'

/** What each role may do, for choices in forms. */
export const roleWords: Record<string, string> = {
  read: 'Read: see and fetch',
  write: 'Write: also push and run',
  maintain: 'Maintain: also protections and webhooks',
  admin: 'Admin: everything that the owner can do',
}

/** That svc has never seen a collaborator or a member of a namespace. */
export function unknownBadge(member: string): Html {
  const why = member.startsWith('group:')
    ? 'no user who has logged in is in this group'
    : 'no token or key has this name'
  return html`<span class="badge busy">${icon('warning')}unknown: ${why}</span>`
}
