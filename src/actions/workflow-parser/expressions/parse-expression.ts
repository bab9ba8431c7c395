import { type Expr, ExpressionError, Lexer, Parser } from '@actions/expressions'
import { type Token, TokenType } from '@actions/expressions/lexer'
import type { Fault, Template } from '../workflow.ts'
import { type ExpressionMessage, expressionMessages, type NameUse } from './expression-messages.ts'
import { conditionOf, positionIn, splitTemplate } from './template-parts.ts'
import {
  allFunctions,
  availability,
  contextNames,
  functionsAt,
  isContext,
  isFunction,
  type Signature,
  type WorkflowKey,
} from './workflow-keys.ts'

/** An invalid expression: the fault at `offset` of its text, and what to write instead. */
export class MalformedExpressionError extends Error {
  override readonly name = 'MalformedExpressionError'
  readonly offset: number
  readonly instead: string

  constructor(offset: number, { message, instead }: ExpressionMessage) {
    super(message)
    this.offset = offset
    this.instead = instead
  }
}

type ParsedExpression = { tree: Expr; uses: NameUse[] }

/** A token and its offset in the text. */
type LocatedToken = { token: Token; offset: number }

/** GitHub's limit. */
const maxLength = 21_000

/**
 * Parses the text between `${{` and `}}`. Throws MalformedExpressionError for invalid syntax and unknown names.
 * `functions` override the number of arguments.
 */
export function parseExpression(text: string, functions: Signature[] = []): ParsedExpression {
  if (text.length > maxLength)
    throw new MalformedExpressionError(0, expressionMessages.tooLong(maxLength))
  const tokens = locate(lex(text), text)
  const uses = usesOf(tokens)
  for (const { kind, name, offset } of uses) {
    // Checked before parsing, because the library accepts `constructor` as a function.
    if (kind === 'function' && !isFunction(name)) {
      throw new MalformedExpressionError(offset, expressionMessages.unknownFunction(name))
    }
    if (kind === 'context' && !isContext(name)) {
      throw new MalformedExpressionError(offset, expressionMessages.unknownContext(name))
    }
  }
  return { tree: parse(tokens, [...allFunctions, ...functions]), uses }
}

function lex(text: string): Token[] {
  try {
    return new Lexer(text).lex().tokens.map(unquote)
  } catch (fault) {
    // The library's message contains the position and the piece, and then the whole text.
    const libraryMessage = fault instanceof Error ? fault.message : ''
    const prefix = libraryMessage.slice(0, libraryMessage.length - text.length)
    const [, position = '1'] = /Located at position (\d+) within expression: $/.exec(prefix) ?? []
    const offset = Number(position) - 1
    throw new MalformedExpressionError(offset, expressionMessages.unreadable(text.slice(offset)))
  }
}

/** The library unescapes only the first doubled quote of a text. */
function unquote(token: Token): Token {
  if (token.type !== TokenType.STRING) return token
  return { ...token, value: token.lexeme.slice(1, -1).replaceAll("''", "'") }
}

/** Finds the offsets of tokens, which only white space separates. The library's columns are wrong after a multi-line text. */
function locate(tokens: Token[], text: string): LocatedToken[] {
  const space = /[ \r\t\n]*/y
  let end = 0
  return tokens.map((token) => {
    space.lastIndex = end
    const offset = end + (space.exec(text)?.[0].length ?? 0)
    end = offset + token.lexeme.length
    return { token, offset }
  })
}

function usesOf(tokens: LocatedToken[]): NameUse[] {
  return tokens.flatMap(({ token, offset }, index) => {
    const isProperty = tokens[index - 1]?.token.type === TokenType.DOT
    if (token.type !== TokenType.IDENTIFIER || isProperty) return []
    const isCalled = tokens[index + 1]?.token.type === TokenType.LEFT_PAREN
    return [{ kind: isCalled ? 'function' : 'context', name: token.lexeme, offset }]
  })
}

function parse(located: LocatedToken[], functions: Signature[]): Expr {
  const tokens = located.map(({ token }) => token)
  if (tokens.length === 1) throw new MalformedExpressionError(0, expressionMessages.empty())
  // The library accepts a trailing comma, GitHub does not.
  const comma = located.find(({ token }, index) => {
    const next = tokens[index + 1]
    return token.type === TokenType.COMMA && next?.type === TokenType.RIGHT_PAREN
  })
  if (comma)
    throw new MalformedExpressionError(comma.offset, expressionMessages.unparsable('', ','))
  try {
    return new Parser(tokens, [...contextNames], functions).parse()
  } catch (fault) {
    if (!(fault instanceof ExpressionError)) throw fault
    const { token, offset } = located.find(({ token }) => token.range.start === fault.pos) ?? {
      token: undefined,
      offset: 0,
    }
    throw new MalformedExpressionError(
      offset,
      expressionMessages.unparsable(fault.message, token?.lexeme ?? ''),
    )
  }
}

/** The maximum faults reported for one text; a text may have 100,000 expressions. */
const maxFaults = 20

/** Checks the expressions of a text: syntax, unknown names, and names that are not available under the key. */
export function checkTemplate(template: Template, workflowKey: WorkflowKey): Fault[] {
  const faults: Fault[] = []
  for (const part of splitTemplate(template.text)) {
    if (faults.length === maxFaults) break
    if (part.kind === 'unclosed')
      faults.push(toFault(template, part.offset, expressionMessages.unclosed()))
    if (part.kind === 'expression') faults.push(...checkPart(template, part, workflowKey))
  }
  return faults
}

/** Checks an `if`, where `${{ }}` is optional. An empty one is no condition. */
export function checkCondition(template: Template, workflowKey: WorkflowKey): Fault[] {
  const condition = conditionOf(template.text)
  if (condition.kind === 'none') return []
  if (condition.kind === 'expression') return checkPart(template, condition, workflowKey)
  const message =
    condition.kind === 'unclosed' ? expressionMessages.unclosed() : expressionMessages.surrounded()
  return [toFault(template, condition.offset, message)]
}

function checkPart(
  template: Template,
  { text, offset }: { text: string; offset: number },
  workflowKey: WorkflowKey,
): Fault[] {
  const here = availability[workflowKey]
  try {
    const contexts: readonly string[] = here.contexts
    const functions = functionsAt(here).map((name) => name.toLowerCase())
    const { uses } = parseExpression(text, here.functions)
    return uses
      .filter(({ kind, name }) => {
        const known = kind === 'context' ? contexts : functions
        return !known.includes(name.toLowerCase())
      })
      .slice(0, 1)
      .map((use) =>
        toFault(template, offset + use.offset, expressionMessages.misplaced(use, workflowKey)),
      )
  } catch (fault) {
    if (!(fault instanceof MalformedExpressionError)) throw fault
    return [toFault(template, offset + fault.offset, fault)]
  }
}

function toFault(
  template: Template,
  offset: number,
  { message, instead }: ExpressionMessage,
): Fault {
  return { ...positionIn(template, offset), message, instead }
}
