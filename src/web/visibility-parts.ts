import type { Visibility } from '#access/visibility.ts'
import { type Html, html } from './render/html.ts'

/** The options of a field for the visibility of a repository. */
export const visibilityChoices: { value: Visibility; text: string }[] = [
  { value: 'private', text: 'Private: collaborators' },
  { value: 'internal', text: 'Internal: every user can read it' },
  { value: 'public', text: 'Public: everybody can read it' },
]

/** Marks a repository that others than its collaborators can read. */
export function visibilityBadge(visibility: Visibility): Html | false {
  return visibility !== 'private' && html` <span class="badge">${visibility}</span>`
}
