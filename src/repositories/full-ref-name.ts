import { fullNameFault } from '#git/refs/ref-name.ts'
import { invalid, ofQuery } from '#http/validation.ts'

/** Throws `invalid_request` unless the query parameter `ref`, if it is given, is the full name of a ref. */
export function requireFullName(ref: string | undefined): void {
  const fault = ref === undefined ? undefined : fullNameFault(ref)
  if (fault !== undefined) throw invalid([ofQuery('ref', fault)])
}
