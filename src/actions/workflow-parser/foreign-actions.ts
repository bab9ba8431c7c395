// Actions of other repositories that many projects use. None of them runs here.

const caches = 'it only caches files of builds, which take longer without it.'
const reports = 'it only sends reports elsewhere.'

/** Actions without which a run is right, so that their steps do nothing; each with the reason. */
const omitted: Readonly<Record<string, string>> = {
  'andremiras/coveralls-python-action': reports,
  'codecov/codecov-action': reports,
  'coverallsapp/github-action': reports,
  'dorny/test-reporter': reports,
  'enricomi/publish-unit-test-result-action': reports,
  'gradle/actions/setup-gradle': caches,
  'jlumbroso/free-disk-space': 'it only frees space on the machines of GitHub.',
  'mikepenz/action-junit-report': reports,
  'mozilla-actions/sccache-action': caches,
  'step-security/harden-runner': 'it only watches the machines of GitHub; the sandbox applies.',
  'swatinem/rust-cache': caches,
}

/** What to write instead of an action. */
const replacements: Readonly<Record<string, string>> = {
  'actions-rs/cargo': 'Write "run: cargo" with its "command" and "args".',
  'gradle/actions/wrapper-validation': 'Remove the step, and review changes of the wrapper.',
  'gradle/gradle-build-action': 'Write "run: ./gradlew …".',
  're-actors/alls-green':
    'Write "run: ${{ !contains(join(needs.*.result), \'failure\') }}", in a job with "if: always()".',
}

/** Inputs with which an action does more. */
const notOmittedWith: Readonly<Record<string, string[]>> = {
  'gradle/actions/setup-gradle': ['arguments', 'gradle-version'],
}

/** Returns why the steps of an action with these inputs do nothing; undefined for other actions. */
export function whyOmitted(action: string, inputs: readonly string[]): string | undefined {
  const doesMore = lookUp(notOmittedWith, action)?.some((input) => inputs.includes(input))
  return doesMore ? undefined : lookUp(omitted, action)
}

/** Returns what to write instead of an action; undefined for other actions. */
export function replacementOf(action: string): string | undefined {
  return lookUp(replacements, action)
}

function lookUp<Value>(table: Readonly<Record<string, Value>>, action: string): Value | undefined {
  const name = action.toLowerCase()
  return Object.hasOwn(table, name) ? table[name] : undefined
}
