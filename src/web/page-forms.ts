import type { FieldError } from '#base/problem.ts'
import { invalid } from '#http/validation.ts'
import { type Session, unlockedMs } from '#identity/sessions/sessions.ts'
import { icon } from './icons.ts'
import type { PageContext, SharedContext } from './page.ts'
import { problemNotice } from './problem-page.ts'
import { type Content, type Html, html } from './render/html.ts'

/** A form of a page. If it is the one that was just sent, it has its problem, and what was typed. */
export type PageForm = ReturnType<typeof createForm>

type Field = {
  name: string
  label: string
  help?: Content
  isRequired?: boolean
  /** The field of the API whose problems it shows; by default that with its name. */
  pointer?: string
}

type TextField = Field & {
  type?: 'text' | 'url' | 'number' | 'password' | 'datetime-local' | 'search'
  value?: string | null
  maxLength?: number
  placeholder?: string
  isMono?: boolean
  hasFocus?: boolean
  /** Leaves out of what was typed what no page should have. */
  withoutSecret?: (typed: string) => string
  min?: number
  max?: number
}

type Choice = { value: string; text: string; help?: string; isChecked?: boolean }

type FormContext = Pick<PageContext, 'problem' | 'fields' | 'to' | 'url' | 'time'> &
  Partial<Pick<PageContext, 'session'>>

/** Creates a form that is sent to an address of this service. */
export function createForm(context: FormContext, action: string) {
  const { problem, fields, to, url } = context
  const isSent = problem !== undefined && to.api(url) === action
  const prefix = action.slice(to.prefix.length + 1).replace(/[^\w]+/g, '-')
  const shown = new Set<FieldError>()

  /** The problem of a field, as a sentence. */
  function problemOf({ name, label, pointer = name }: Field): string | undefined {
    const found =
      isSent &&
      problem.errors?.find(
        (error) => error.pointer === `/${pointer}` || shownName(error) === pointer,
      )
    if (!found) return undefined
    shown.add(found)
    // Of the API they continue the name of the field; those of pages are sentences of their own.
    return /^[A-Z"]/.test(found.detail) ? found.detail : `${label} ${found.detail}`
  }

  /** A field with its label, help and problem; `input` makes the control with these attributes. */
  function labelled(field: Field, input: (attributes: Html) => Html): Html {
    const { name, label, help, isRequired = false } = field
    const id = `${prefix}-${name}`
    const fault = problemOf(field)
    const described = [help !== undefined && `${id}-help`, fault !== undefined && `${id}-problem`]
      .filter((one) => one !== false)
      .join(' ')
    const attributes = html` id="${id}" name="${name}"${isRequired && html` required`}${
      described !== '' && html` aria-describedby="${described}"`
    }${fault !== undefined && html` aria-invalid="true"`}`
    return html`<div class="field"><label for="${id}">${label}</label>
${input(attributes)}
${fault !== undefined && html`<p class="field-problem" id="${id}-problem">${icon('warning')} ${fault}</p>`}
${help !== undefined && html`<p class="help" id="${id}-help">${help}</p>`}</div>`
  }

  const typedIn = (name: string, value: string | null | undefined) =>
    (isSent ? fields.get(name) : value) ?? ''

  return {
    isSent,

    text(field: TextField): Html {
      const { name, type = 'text', value, maxLength, placeholder, min, max } = field
      const { withoutSecret = (typed: string) => typed } = field
      const typed = type === 'password' ? '' : withoutSecret(typedIn(name, value))
      return labelled(
        field,
        (attributes) =>
          html`<input type="${type}"${attributes} value="${typed}" autocomplete="off" spellcheck="false"${
            maxLength !== undefined && html` maxlength="${maxLength}"`
          }${min !== undefined && html` min="${min}"`}${max !== undefined && html` max="${max}"`}${
            placeholder !== undefined && html` placeholder="${placeholder}"`
          }${field.isMono && html` class="mono"`}${field.hasFocus && html` autofocus`}>`,
      )
    },

    area(
      field: Field & {
        value?: string
        rows?: number
        placeholder?: string
        isSecret?: boolean
        isCode?: boolean
        maxLength?: number
        hasFocus?: boolean
      },
    ) {
      const { name, value, rows = 3, placeholder = '', isSecret = false, isCode, maxLength } = field
      // A line feed after the tag is not part of the text. Browsers have lines that end with one, and send CRLF.
      return labelled(
        field,
        (
          attributes,
        ) => html`<textarea${attributes} rows="${rows}" class="mono${isCode && ' long-lines'}" autocomplete="off" spellcheck="false" placeholder="${placeholder}"${
          maxLength !== undefined && html` maxlength="${maxLength}"`
        }${field.hasFocus && html` autofocus`}>
${!isSecret && typedIn(name, value).replace(/\r\n?/g, '\n')}</textarea>`,
      )
    },

    select(field: Field & { options: Choice[]; value?: string }): Html {
      const chosen = typedIn(field.name, field.value)
      return labelled(
        field,
        (attributes) =>
          html`<select${attributes}>${field.options.map(
            ({ value, text }) =>
              html`<option value="${value}"${value === chosen && html` selected`}>${text}</option>`,
          )}</select>`,
      )
    },

    /** Checkboxes with the same name. */
    checks(field: Field & { choices: Choice[]; type?: 'checkbox' | 'radio' }): Html {
      const { name, label, help, choices, type = 'checkbox' } = field
      const fault = problemOf(field)
      return html`<fieldset class="field"><legend>${label}</legend>
${help !== undefined && html`<p class="help">${help}</p>`}
<div class="checks">${choices.map(({ value, text, help: about, isChecked = false }) => {
        const isOn = isSent ? fields.getAll(name).includes(value) : isChecked
        return html`<label class="check"><input type="${type}" name="${name}" value="${value}"${isOn && html` checked`}><span>${text}${about !== undefined && html` <span class="soft">${about}</span>`}</span></label>`
      })}</div>
${fault !== undefined && html`<p class="field-problem">${icon('warning')} ${fault}</p>`}</fieldset>`
    },

    /** The token or a login link, where a sensitive change needs it: so nothing that was typed has to be typed again. */
    token: () => tokenField(context, true),

    /** The form with its problem above it. */
    render(content: Content, className = 'stack'): Html {
      const isAtFields =
        isSent && problem.errors?.length !== 0 && problem.errors?.every((one) => shown.has(one))
      return html`<form method="post" action="${action}" class="${className}">
${isSent && (isAtFields ? fieldNotice : problemNotice(context, { hasFocus: true }))}
${content}
</form>`
    },
  }
}

const fieldNotice = html`<div class="notice bad" role="alert" tabindex="-1" autofocus>${icon('warning')}<p>Nothing was changed: a field needs another value.</p></div>`

/** A button that is a form of its own. */
export function formButton(
  action: string,
  content: Content,
  { className = 'small', hidden = {}, label }: FormButton = {},
): Html {
  return html`<form method="post" action="${action}">${hiddenFields(hidden)}<button class="${className}"${label !== undefined && html` aria-label="${label}"`}>${content}</button></form>`
}

type FormButton = { className?: string; hidden?: Record<string, string>; label?: string }

type Question = {
  action: string
  verb: string
  /** What the verb is about; only for screen readers where a row shows it. */
  object: string
  isInRow?: boolean
  consequence: Content
  hidden?: Record<string, string>
  className?: string
  /** Whether the token must have been given moments ago. */
  isSensitive?: boolean
  /** False for what a session may do that is not unlocked. */
  isLocked?: boolean
}

/**
 * A button for what cannot be undone. It unfolds the form in the page, which asks once: also for the token where that is
 * needed. On a cached page, which knows no session, the token has a page of its own.
 */
export function askButton(
  context: Pick<SharedContext, 'time' | 'to'> & Partial<Pick<PageContext, 'session'>>,
  question: Question,
): Html {
  const { action, verb, object, consequence, hidden = {}, className = 'small' } = question
  const { isInRow = true, isSensitive = false, isLocked = true } = question
  const about = isInRow ? html`<span class="hidden"> ${object}</span>` : ` ${object}`
  return html`<details class="ask"><summary class="button danger ${className}"><span>${verb}${about}</span><span>Keep${about}</span></summary>
<form method="post" action="${action}" class="stack">${hiddenFields(hidden)}
<p><b>${verb} ${object}?</b> ${consequence}</p>
${isLocked && tokenField(context, isSensitive)}
<button class="danger">${verb}</button></form></details>`
}

function hiddenFields(hidden: Record<string, string>): Html[] {
  return Object.entries(hidden).map(
    ([name, value]) => html`<input type="hidden" name="${name}" value="${value}">`,
  )
}

/** A field for the token or a login link, where the session must be unlocked: so nothing is asked on another page. */
function tokenField(
  { session, time, to }: Pick<SharedContext, 'time' | 'to'> & Partial<Pick<PageContext, 'session'>>,
  isSensitive: boolean,
): Html | false {
  if (!session || unlockedForMs(session, isSensitive, time.at) > 60_000) return false
  if (session.loginId !== undefined) return confirmLink(to)
  return html`<div class="field"><label>${session.sshKeyId === null ? 'Your token' : 'New login link'}
<input type="password" name="_token" required autocomplete="current-password" spellcheck="false"></label>
<p class="help">This change asks for it again.</p></div>`
}

/** How a session of the identity provider is confirmed. In another tab, so nothing that was typed has to be typed again. */
export function confirmLink(to: SharedContext['to']): Html {
  return html`<p class="help">This change asks for your login again: <a href="${to.own('login/confirm')}" target="_blank" rel="noopener">confirm it is you</a> in another tab, then go on here.</p>`
}

/** The problem of what was just sent, unless one of these forms shows it. */
export function otherProblem(
  context: Pick<PageContext, 'problem'>,
  forms: PageForm[] = [],
): Html | undefined {
  return forms.some(({ isSent }) => isSent) ? undefined : problemNotice(context)
}

/** A field without spaces around it; undefined if it is empty. */
export function fieldText(fields: URLSearchParams, name: string): string | undefined {
  return fields.get(name)?.trim() || undefined
}

/** The lines of a field that are not empty; undefined if there are none. */
export function fieldLines(fields: URLSearchParams, name: string): string[] | undefined {
  const lines = (fields.get(name) ?? '').split(/\r?\n/).map((line) => line.trim())
  const filled = lines.filter((line) => line !== '')
  return filled.length === 0 ? undefined : filled
}

/** Throws unless a text was typed to confirm what cannot be undone. */
export function requireTyped(fields: URLSearchParams, name: string, expected: string): void {
  if (fieldText(fields, name) === expected) return
  throw invalid([{ pointer: `/${name}`, detail: 'The name does not match; nothing was deleted.' }])
}

/** The text of an area, with the line endings of Git. */
export function areaText(fields: URLSearchParams, name: string): string {
  return (fields.get(name) ?? '').replaceAll('\r\n', '\n')
}

/** A number in a field; any other text as it is, for the API to refuse. Undefined if it is empty. */
export function numberOf(fields: URLSearchParams, name: string): number | string | undefined {
  const text = fieldText(fields, name)
  return text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : text
}

/** The parameter, or the field of the body, that an error is about. */
function shownName(error: FieldError): string {
  return error.pointer === undefined ? error.parameter : (error.pointer.split('/')[1] ?? '')
}

/** How long ago the token may have been given for a sensitive change. */
const sensitiveMs = 10 * 60_000

/** For how long a session may still change something, or something sensitive. Negative if not at all. */
export function unlockedForMs(
  { unlockedUntil }: Pick<Session, 'unlockedUntil'>,
  isSensitive: boolean,
  now: number,
): number {
  return unlockedUntil - now - (isSensitive ? unlockedMs - sensitiveMs : 0)
}
