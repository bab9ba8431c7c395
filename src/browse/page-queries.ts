import { Type } from 'typebox'
import { cursorForm } from '#http/pagination.ts'

/** The query parameters of a page of at most 1000 entries. */
export function pageQuery(defaultLimit: number) {
  return {
    limit: Type.Optional(
      Type.Integer({
        description: `the page size, 1 to 1000; ${defaultLimit} without it`,
        minimum: 1,
        maximum: 1000,
      }),
    ),
    cursor: Type.Optional(Type.String({ ...cursorForm('^[\\w.-]+$'), maxLength: 8192 })),
  }
}

/** A cursor for raw names, whose characters are bytes. */
export function toNameCursor(name: string): string {
  return Buffer.from(name, 'latin1').toString('base64url')
}

export function fromNameCursor(cursor: string): string {
  return Buffer.from(cursor, 'base64url').toString('latin1')
}
