import type { SharedContext } from '../page.ts'
import type { OperationValues } from '../read-operations.ts'

type Branch = OperationValues['listBranches'][number]

/** Their newest commits are read for the order. */
const maxSorted = 1000

/**
 * The branches whose names have the filter in them: the default one first, then by their newest commits. Of very many, the
 * first by name, with the cursor of the next ones.
 */
export async function branchesByRecency(
  { readPage }: Pick<SharedContext, 'readPage'>,
  filter?: string,
): Promise<{ branches: Branch[]; next: string | undefined }> {
  const query = { limit: maxSorted, filter, counts: false }
  const { value, next } = await readPage('listBranches', { query })
  const branches = value.toSorted(
    (one, other) =>
      Number(other.isDefault) - Number(one.isDefault) ||
      (next === undefined ? (other.commit?.at ?? 0) - (one.commit?.at ?? 0) : 0),
  )
  return { branches, next }
}
