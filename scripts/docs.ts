import { writeFileSync } from 'node:fs'
import { startInProcess } from '../test/support/in-process.ts'
import { apiOperations } from './api-operations.ts'
import { settingsPage } from './settings-page.ts'

// Writes the generated pages of docs/, and what commands know of the routes.
{
  await using service = await startInProcess()
  writeFileSync('src/cli/operations/api-operations.json', apiOperations(service.routes))
}
writeFileSync('docs/settings.md', settingsPage())
// Only now: its commands are made of the operations.
const { manPage } = await import('./man-page.ts')
writeFileSync('docs/svc.1', manPage())
