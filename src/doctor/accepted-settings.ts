import type { Setting } from '../config/setting.ts'
import { readSettings, type Settings, SettingsError } from '../config/settings.ts'
import { settings } from '../config/settings-table.ts'
import { unknownVariables } from '../config/unknown-variables.ts'

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
