import { fieldText, numberOf } from '../page-forms.ts'
import type { PageTime } from '../page-time.ts'
import type { Content } from '../render/html.ts'

const hour = { value: '1h', text: '1 hour' }
const days = [1, 7, 30, 90, 365].map((count) => ({
  value: String(count),
  text: count === 1 ? '1 day' : `${count} days`,
}))
const never = { value: 'never', text: 'Never' }

/** The lifetimes that forms offer; the first one is that of the API. */
export function expiryChoices(usual: string, extra: { hour?: boolean; never?: boolean }) {
  return [
    { value: '', text: usual },
    ...(extra.hour ? [hour] : []),
    ...days,
    ...(extra.never ? [never] : []),
  ]
}

/** The chosen lifetime, as the API takes it. */
export function expiryOf(fields: URLSearchParams) {
  const chosen = fieldText(fields, 'expires')
  if (chosen === 'never') return { expiresInDays: null }
  if (chosen === hour.value) return { expiresInSeconds: 3600 }
  return { expiresInDays: numberOf(fields, 'expires') }
}

/** When a token or key was created and used, and when it ends. */
export function lifeOf(
  one: { createdAt: number; lastUsedAt: number | null; expiresAt: number | null },
  time: PageTime,
): Content[] {
  const { createdAt, lastUsedAt, expiresAt } = one
  return [
    'created ',
    time.age(createdAt),
    ', ',
    ...(lastUsedAt === null ? ['never used'] : ['used ', time.age(lastUsedAt)]),
    ', ',
    ...(expiresAt === null ? ['never expires'] : ['expires ', time.age(expiresAt)]),
  ]
}
