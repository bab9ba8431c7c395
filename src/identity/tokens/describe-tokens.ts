import type { Principal } from '#access/principal.ts'
import type { TokenRow } from '#database/schema.ts'
import { limitsOf, type Token, toToken } from './token-rows.ts'

/** The part of `Repositories` that tokens and keys use. */
export type TokenRepositories = {
  idsOf: (principal: Principal, names: readonly string[]) => Promise<string[]>
  namesOf: (principal: Principal, ids: readonly string[]) => Promise<ReadonlyMap<string, string>>
}

/** Converts rows to tokens, with the names of the repositories that the viewer can see. */
export type DescribeTokens = {
  one: (viewer: Principal, row: TokenRow) => Promise<Token>
  all: (viewer: Principal, rows: TokenRow[]) => Promise<Token[]>
}

export function createDescribeTokens({ namesOf }: TokenRepositories): DescribeTokens {
  const idsOf = (row: TokenRow) => limitsOf(row).repositories ?? []
  return {
    one: async (viewer, row) => toToken(row, await namesOf(viewer, idsOf(row))),

    async all(viewer, rows) {
      const names = await namesOf(viewer, [...new Set(rows.flatMap(idsOf))])
      return rows.map((row) => toToken(row, names))
    },
  }
}
