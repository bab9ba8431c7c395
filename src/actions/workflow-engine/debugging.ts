import type { Plan } from './plan.ts'

const debugSecret = 'ACTIONS_STEP_DEBUG'

/** Whether a secret requests the lines of `::debug::` in the log, as on GitHub. */
export function isDebugging({ secrets }: Pick<Plan, 'secrets'>): boolean {
  return secrets[debugSecret] === 'true'
}

/** The values to mask: `true` as the value of that secret is none. */
export function secretValues(plan: Pick<Plan, 'secrets'>): string[] {
  return Object.entries(plan.secrets)
    .filter(([name]) => name !== debugSecret || !isDebugging(plan))
    .map(([, value]) => value)
}
