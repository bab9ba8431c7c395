import type { Setting } from '../config/setting.ts'
import { readSettings, type Settings, SettingsError } from '../config/settings.ts'
import { settings } from '../config/settings-table.ts'
import { unknownVariables } from '../config/unknown-variables.ts'
import { type Check, type Finding, fault, orOk, warning } from './finding.ts'

type Environment = Record<string, string | undefined>

type Accepted = {
  /** Settings that are not accepted have their defaults here. */
  settings: Settings
  /** The keys of those, with their variables. */
  refused: Map<keyof Settings, string>
  /** What is wrong with each. */
  faults: string[]
}

const table = Object.entries<Setting<unknown>>(settings)

/** The settings of an environment, as far as they are accepted. */
export function readAccepted(environment: Environment): Accepted {
  try {
    return { settings: readSettings(environment), refused: new Map(), faults: [] }
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error
    const refused = table.filter(([, { variable, parse }]) => {
      const text = environment[variable]
      return text && parse(text) === undefined
    })
    const names = unknownVariables(environment).map(({ name }) => name)
    const unset = [...refused.map(([, { variable }]) => variable), ...names]
    const cleared = Object.fromEntries(unset.map((name) => [name, undefined]))
    return {
      settings: readSettings({ ...environment, ...cleared }),
      // The table's keys are those of the settings.
      refused: new Map(refused.map(([key, { variable }]) => [key as keyof Settings, variable])),
      faults: error.message.split('\n'),
    }
  }
}

/** Whether all settings are accepted, and whether all that look like settings are any. */
export const settingsCheck: Check = {
  id: 'settings',
  title: 'settings',
  async run({ environment, settingFaults, setting }) {
    const given = table.filter(([, { variable }]) => environment[variable])
    const unknown = unknownVariables(environment).filter(({ meant }) => meant === undefined)
    const findings = [
      ...(settingFaults.length > 0 ? [] : samePortFindings(setting('port'), setting('sshPort'))),
      ...settingFaults.map((line) =>
        fault(
          line,
          `Set ${line.split(':')[0]} to what it takes, or unset it; no server starts with it.`,
        ),
      ),
      ...unknown.map(({ message }) => warning(message, 'svc serve --help lists the settings.')),
    ]
    const set = given.length
    return orOk(findings, `${set === 0 ? 'All have their defaults' : `${set} set, all accepted`}.`)
  },
}

// On different addresses the same port would do; it is hardly what is meant.
function samePortFindings(port: number, sshPort: number | 'off'): Finding[] {
  if (port === 0 || port !== sshPort) return []
  const found = `SVC_PORT and SVC_SSH_PORT are both ${port}.`
  return [warning(found, 'Set one of them to another port.')]
}
