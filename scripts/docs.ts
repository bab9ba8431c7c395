import { writeFileSync } from 'node:fs'
import { settingsPage } from './settings-page.ts'

// Writes the generated pages of docs/.
writeFileSync('docs/settings.md', settingsPage())
