import type { Setting } from '../src/config/setting.ts'
import { settings } from '../src/config/settings-table.ts'

/** docs/settings.md, made from the table of settings. */
export function settingsPage(): string {
  const rows = Object.values<Setting<unknown>>(settings).map(
    ({ variable, description, accepts, fallback }) =>
      `| \`${variable}\` | ${fallback && `\`${fallback}\``} | ${description} | ${accepts} |`,
  )
  return `# Settings

Settings are environment variables; all are optional. A value that is not accepted stops the start with a
line that names the variable and what it takes. \`svc serve --help\` lists them, too.

This page is made by \`npm run docs\`.

| variable | default | what it does | what it takes |
|---|---|---|---|
${rows.join('\n')}
`
}
