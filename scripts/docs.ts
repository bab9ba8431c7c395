import { writeFileSync } from 'node:fs'
import { manPage } from './man-page.ts'
import { settingsPage } from './settings-page.ts'

// Writes the generated pages of docs/.
writeFileSync('docs/settings.md', settingsPage())
writeFileSync('docs/svc.1', manPage())
