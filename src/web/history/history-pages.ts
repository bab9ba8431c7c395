import type { PageRoute } from '../match.ts'
import { archivePages } from './archive-pages.ts'
import { blamePages } from './blame-pages.ts'
import { branchPages } from './branch-pages.ts'
import { codeSearchPages } from './code-search-pages.ts'
import { commitPages } from './commit-pages.ts'
import { comparePages } from './compare-pages.ts'
import { logPages } from './log-pages.ts'
import { tagPages } from './tag-pages.ts'

/** The pages of history, changes and refs. */
export const historyPages: readonly PageRoute[] = [
  ...logPages,
  ...commitPages,
  ...comparePages,
  ...blamePages,
  ...branchPages,
  ...tagPages,
  ...codeSearchPages,
  ...archivePages,
]
