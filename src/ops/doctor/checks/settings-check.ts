import type { Setting } from '#config/setting.ts'
import { settings } from '#config/settings-table.ts'
import { unknownVariables } from '#config/unknown-variables.ts'
import type { Check } from '../check.ts'
import { type Findings, fault, orOk, warning } from '../finding.ts'

const table = Object.entries<Setting<unknown>>(settings)

/** Checks that all settings are accepted, and that all variables with the prefix SVC_ are settings. */
export const settingsCheck: Check = {
  id: 'settings',
  title: 'settings',
  async run({ environment, settingFaults, setting }) {
    const set = table.filter(([, { variable }]) => environment[variable]).length
    const unknown = unknownVariables(environment).filter(({ meant }) => meant === undefined)
    const findings = [
      settingFaults.length === 0 && samePortFindings(setting('port'), setting('sshPort')),
      ...settingFaults.map((line) =>
        fault(
          line,
          `Set ${line.split(':')[0]} to an accepted value, or unset it; svc does not start with this one.`,
        ),
      ),
      ...unknown.map(({ message }) => warning(message, 'svc serve --help lists the settings.')),
    ]
    return orOk(findings, `${set === 0 ? 'All have their defaults' : `${set} set, all accepted`}.`)
  },
}

// Valid with different addresses, but probably a mistake.
function samePortFindings(port: number, sshPort: number | 'off'): Findings {
  if (port === 0 || port !== sshPort) return []
  const found = `SVC_PORT and SVC_SSH_PORT are both ${port}.`
  return warning(found, 'Set one of them to another port.')
}
