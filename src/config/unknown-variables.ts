import type { Setting } from './setting.ts'
import { settings } from './settings-table.ts'

/** A variable with the prefix SVC_ that is not a setting. */
type UnknownVariable = {
  name: string
  /** The setting that was probably meant. */
  meant: string | undefined
  message: string
}

const table: Setting<unknown>[] = Object.values(settings)
const variables = table.map(({ variable }) => variable)
// Variables of single commands, and of workflow steps, in which svc may run.
const others = new Set([
  'SVC_BRANCH',
  'SVC_COMMIT',
  'SVC_EVENT',
  'SVC_GIT_CREDENTIAL',
  'SVC_JOB',
  'SVC_REF',
  'SVC_REPOSITORY',
  'SVC_RUNNER_TOKEN',
  'SVC_RUN_ATTEMPT',
  'SVC_RUN_ID',
  'SVC_RUN_NUMBER',
  'SVC_SOURCE_PASSWORD',
  'SVC_TAG',
  'SVC_TOKEN',
  'SVC_URL',
  'SVC_WORKFLOW',
])

const prefix = /^svc_/i
// https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables
const serviceLink = /_SERVICE_(HOST$|PORT$|PORT_)|_PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?$/
const serviceAddress = /^(tcp|udp|sctp):\/\//
export const serviceLinkHint =
  'Kubernetes sets such variables for a Service whose name begins with "svc": rename it, or set enableServiceLinks: false in the pod'

/** Lists the variables with the prefix SVC_ that are not settings. An empty variable counts as unset. */
export function unknownVariables(environment: NodeJS.ProcessEnv): UnknownVariable[] {
  return Object.entries(environment).flatMap(([name, value]) => {
    if (!value || !prefix.test(name) || variables.includes(name) || others.has(name)) return []
    if (serviceLink.test(name) || isServiceAddress(value)) {
      return [{ name, meant: undefined, message: `${name} is not a setting. ${serviceLinkHint}.` }]
    }
    const meant = closest(name.toUpperCase())
    const message = meant
      ? `${name}: there is no such setting. Did you mean ${meant}? Otherwise unset it.`
      : `${name} is not a setting, and has no effect.`
    return [{ name, meant, message }]
  })
}

/** Whether Kubernetes has set a variable such as `SVC_PORT` to this value. */
export function isServiceAddress(value: string): boolean {
  return serviceAddress.test(value)
}

function closest(name: string): string | undefined {
  const word = name.replace(prefix, '')
  // Short names resemble each other too easily.
  const maxDistance = word.length <= 5 ? 1 : 2
  const nearest = variables
    .map((variable) => ({ variable, distance: distance(word, variable.replace(prefix, '')) }))
    .sort((one, other) => one.distance - other.distance)[0]
  return nearest && nearest.distance <= maxDistance ? nearest.variable : undefined
}

/** The edit distance of two names; singular and plural count as equal. */
function distance(one: string, other: string): number {
  return Math.min(distanceOf(one, other), distanceOf(singular(one), singular(other)))
}

function singular(name: string): string {
  return name.replace(/IES(?=_|$)/g, 'Y').replace(/S(?=_|$)/g, '')
}

/** The optimal string alignment distance: letters inserted, deleted, replaced or swapped with the next. */
function distanceOf(one: string, other: string): number {
  const rows: number[][] = [Array.from({ length: other.length + 1 }, (_, column) => column)]
  const at = (row: number, column: number) => rows[row]?.[column] ?? Number.POSITIVE_INFINITY
  for (let row = 1; row <= one.length; row++) {
    rows[row] = [row]
    for (let column = 1; column <= other.length; column++) {
      const isSame = one[row - 1] === other[column - 1]
      const isSwapped = one[row - 1] === other[column - 2] && one[row - 2] === other[column - 1]
      const distance = Math.min(
        at(row - 1, column) + 1,
        at(row, column - 1) + 1,
        at(row - 1, column - 1) + (isSame ? 0 : 1),
        isSwapped ? at(row - 2, column - 2) + 1 : Number.POSITIVE_INFINITY,
      )
      rows[row]?.push(distance)
    }
  }
  return at(one.length, other.length)
}
