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
  'jlumbroso/free-disk-space': 'it only frees space on the machines of GitHub.',
  'mikepenz/action-junit-report': reports,
  'mozilla-actions/sccache-action': caches,
  'step-security/harden-runner': 'it only watches the machines of GitHub; the sandbox applies.',
  'swatinem/rust-cache': caches,
}

/** What to write instead of an action. */
const replacements: Readonly<Record<string, string>> = {
  'actions-rs/cargo': 'Write "run: cargo" with its "command" and "args".',
  'golangci/golangci-lint-action': 'Write "run: golangci-lint run".',
  'gradle/actions/setup-gradle': 'Remove the step, and write "run: ./gradlew …".',
  'gradle/actions/wrapper-validation': 'Remove the step, and review changes of the wrapper.',
  'gradle/gradle-build-action': 'Write "run: ./gradlew …".',
  'pre-commit/action': 'Write "run: pre-commit run --all-files".',
  're-actors/alls-green':
    'Write "run: ${{ !contains(join(needs.*.result), \'failure\') }}", in a job with "if: always()".',
  'taiki-e/cache-cargo-install-action': 'Write "run: cargo install --locked" with its "tool".',
  'taiki-e/install-action': 'Write "run: cargo install --locked" with its "tool".',
}

/** Returns why the steps of an action do nothing; undefined for other actions. */
export function whyOmitted(action: string): string | undefined {
  return lookUp(omitted, action)
}

/** Returns what to write instead of an action; undefined for other actions. */
export function replacementOf(action: string): string | undefined {
  return lookUp(replacements, action)
}

function lookUp(table: Readonly<Record<string, string>>, action: string): string | undefined {
  const name = action.toLowerCase()
  return Object.hasOwn(table, name) ? table[name] : undefined
}
