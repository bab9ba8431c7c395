import type { Setting } from '#config/setting.ts'
import { readSettings, type Settings, SettingsError } from '#config/settings.ts'
import { settings } from '#config/settings-table.ts'
import { unknownVariables } from '#config/unknown-variables.ts'

type Environment = Record<string, string | undefined>

type Accepted = {
  /** With the defaults for settings that are not accepted. */
  settings: Settings
  /** The keys and variables of settings that are not accepted. */
  refused: Map<keyof Settings, string>
  /** One line per setting that is not accepted. */
  faults: string[]
}

const table = Object.entries<Setting<unknown>>(settings)

/** Reads the settings of an environment, with defaults for those that are not accepted. */
export function readAccepted(environment: Environment): Accepted {
  try {
    return { settings: readSettings(environment), refused: new Map(), faults: [] }
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error
    // Each line begins with the variable that it is about.
    const faults = error.message.split('\n')
    const refused = table.filter(([, { variable }]) =>
      faults.some((line) => line.startsWith(`${variable}: `)),
    )
    const names = unknownVariables(environment).map(({ name }) => name)
    const unset = [...refused.map(([, { variable }]) => variable), ...names]
    const cleared = Object.fromEntries(unset.map((name) => [name, undefined]))
    return {
      settings: readSettings({ ...environment, ...cleared }),
      // The table's keys are those of the settings.
      refused: new Map(refused.map(([key, { variable }]) => [key as keyof Settings, variable])),
      faults,
    }
  }
}
