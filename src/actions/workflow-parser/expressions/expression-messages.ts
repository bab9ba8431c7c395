import {
  availability,
  contextNames,
  functionsAt,
  isContext,
  isFunction,
  type WorkflowKey,
} from './workflow-keys.ts'

/** A name in an expression, as written. */
export type NameUse = { kind: 'context' | 'function'; name: string; offset: number }

/** What is wrong, and what to write instead. */
export type ExpressionMessage = { message: string; instead: string }

/** The messages for invalid expressions. */
export const expressionMessages = {
  unclosed: (): ExpressionMessage => ({
    message: 'This `${{` is not closed.',
    instead: "Close it with `}}`. To write it as text: ${{ '${{' }}.",
  }),
  empty: (): ExpressionMessage => ({
    message: 'The expression is empty.',
    instead: 'Write a value between `${{` and `}}`, such as ${{ github.ref }}, or remove both.',
  }),
  tooLong: (maxLength: number): ExpressionMessage => ({
    message: `The expression is longer than ${maxLength} characters.`,
    instead: 'Split it, for example over several variables in `env`.',
  }),
  tooDeep: (): ExpressionMessage => ({
    message: 'The expression is nested too deeply.',
    instead: 'Split it, for example over several variables in `env`.',
  }),
  surrounded: (): ExpressionMessage => ({
    message: 'The text around `${{ }}` would make this condition always true.',
    instead: 'Put the whole condition into one `${{ }}`, or omit the braces.',
  }),
  unknownFunction: (name: string): ExpressionMessage => ({
    message: `Unknown function ${quote(name)}.`,
    instead: isContext(name)
      ? `${quote(name)} is a context: write ${name}.NAME or ${name}['NAME'].`
      : `The functions are ${list(functionsAt(availability['step.if']))}.`,
  }),
  unknownContext: (name: string): ExpressionMessage => ({
    message: `Unknown context ${quote(name)}.`,
    instead: isFunction(name)
      ? `${quote(name)} is a function: write ${name}().`
      : `Put strings in single quotes: '${shorten(name)}'. The contexts are ${list(contextNames)}.`,
  }),
  /** A known name under a key where it is not available. */
  misplaced: ({ kind, name }: NameUse, workflowKey: WorkflowKey): ExpressionMessage => ({
    message: `The ${kind} ${quote(name)} cannot be used in ${availability[workflowKey].label}.`,
    instead: isActionKey(workflowKey)
      ? (describeAvailability(kind, name, true) ?? passAsInput)
      : (hints[name.toLowerCase()] ?? describeAvailability(kind, name, false) ?? passAsInput),
  }),
  /** A piece that is not a token of the language. */
  unreadable: (rest: string): ExpressionMessage => {
    const [piece = rest.slice(0, 1)] = /^\S+/.exec(rest) ?? []
    const code = piece.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')
    const shown = piece.trim() === '' ? `white space U+${code}` : quote(piece)
    return { message: `Unexpected ${shown}.`, instead: adviseOn(rest) }
  },
  /** Rewrites an error of the library's parser; `word` is where it stopped. */
  unparsable: (libraryMessage: string, word: string): ExpressionMessage => {
    if (libraryMessage.startsWith('Exceeded')) return expressionMessages.tooDeep()
    if (libraryMessage.startsWith('Unexpected end') || word === '') {
      return {
        message: 'The expression ends unexpectedly.',
        instead: 'Close what is open, and complete the last operator.',
      }
    }
    if (/^(Too few|Too many|Even)/.test(libraryMessage)) {
      return {
        message: `The function ${quote(word)} has the wrong number of arguments.`,
        instead: arities[word.toLowerCase()] ?? 'Call it without arguments.',
      }
    }
    return { message: `Unexpected ${quote(word)}.`, instead: adviseOn(word) }
  },
}

const hints: Partial<Record<string, string>> = {
  secrets: 'Set a variable to the secret in the `env` of the job, and use env.NAME.',
  jobs: 'It can be used in an output of `workflow_call`; elsewhere, the results of jobs are in needs.NAME.',
}

const arities: Partial<Record<string, string>> = {
  case: 'Write case(condition, value, …, otherwise), an odd number of arguments.',
  contains: 'Write contains(searched, item).',
  endswith: 'Write endsWith(text, ending).',
  format: "Write format('{0} and {1}', first, second).",
  fromjson: 'Write fromJSON(text).',
  hashfiles: "Write hashFiles('pattern'), with up to 255 patterns.",
  join: "Write join(list) or join(list, ', ').",
  startswith: 'Write startsWith(text, beginning).',
  tojson: 'Write toJSON(value).',
}

function adviseOn(rest: string): string {
  if (rest.startsWith("'"))
    return "Close the string with a single quote; write a quote inside it twice: ''."
  if (/^["`]/.test(rest)) return "Put strings in single quotes: 'text'."
  if (rest.startsWith('=')) return 'Compare with `==`.'
  if (rest.startsWith('&')) return 'Write `&&` for and.'
  if (rest.startsWith('|')) return 'Write `||` for or.'
  if (rest.startsWith('$')) return 'Inside an expression, write names without "$": env.NAME.'
  if (/^[-+/%]/.test(rest))
    return 'Expressions have no arithmetic; calculate in a step and use its output.'
  return "Expressions consist of names, numbers, strings in single quotes, calls and operators: github.ref == 'refs/heads/main'."
}

// Names that are not available in an action are available where the action is used.
const passAsInput =
  'Pass it to the action as an input, with "with" in the step that uses it, and use inputs.NAME.'

function isActionKey(workflowKey: string): boolean {
  return workflowKey.startsWith('action.')
}

/** Lists the keys under which a name is available; undefined when there are none. */
function describeAvailability(
  kind: NameUse['kind'],
  name: string,
  inAction: boolean,
): string | undefined {
  const keys = Object.entries(availability).filter(([workflowKey, { contexts, functions }]) => {
    if (isActionKey(workflowKey) !== inAction) return false
    const names = kind === 'context' ? contexts : functions.map((signature) => signature.name)
    return names.some((known) => known.toLowerCase() === name.toLowerCase())
  })
  if (keys.length === 0) return undefined
  return `It can be used in ${list(keys.map(([, { label }]) => label))}.`
}

function list(words: readonly string[]): string {
  return words.length < 2 ? words.join('') : `${words.slice(0, -1).join(', ')} and ${words.at(-1)}`
}

function quote(word: string): string {
  return `\`${shorten(word)}\``
}

/** Names and pieces can be as long as an expression. */
function shorten(word: string): string {
  return word.length > 60 ? `${word.slice(0, 60)}…` : word
}
