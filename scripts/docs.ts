import { writeFileSync } from 'node:fs'
import { settingsPage } from './settings-page.ts'

// Writes the pages of docs/ that are made from the program's own lists.
writeFileSync('docs/settings.md', settingsPage())
