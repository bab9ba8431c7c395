import { auditPages } from './audit-pages.ts'
import { deletedPages } from './deleted-pages.ts'
import { keyPages } from './key-pages.ts'
import { namespacePages } from './namespace-pages.ts'
import { newRepositoryPages } from './new-repository-pages.ts'
import { sessionListPages } from './session-list-pages.ts'
import { tokenPages } from './token-pages.ts'
import { trustRulePages } from './trust-rule-pages.ts'
import { userPages } from './user-pages.ts'

/** The pages of users and administrators. */
export const adminPages = [
  ...newRepositoryPages,
  ...namespacePages,
  ...keyPages,
  ...tokenPages,
  ...sessionListPages,
  ...deletedPages,
  ...auditPages,
  ...userPages,
  ...trustRulePages,
]
