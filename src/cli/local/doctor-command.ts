import { styleText } from 'node:util'
import { printable } from '#base/format.ts'
import { toSafeJson } from '#base/safe-text.ts'
import type { createDoctor, Result } from '#ops/doctor/doctor.ts'
import { countOrNo, type Level } from '#ops/doctor/finding.ts'
import type { Terminal } from '../terminal/terminal.ts'

export type DoctorCommandOptions = { repository?: string; fsck: boolean; json?: boolean }

const marks = {
  ok: { text: 'ok', color: 'green' },
  skipped: { text: '-', color: 'gray' },
  warning: { text: 'warning', color: 'yellow' },
  fault: { text: 'FAULT', color: 'red' },
} as const satisfies Record<Level, { text: string; color: string }>

const markWidth = 9
const idWidth = 18

type Options = {
  doctor: ReturnType<typeof createDoctor>
  json: boolean
  terminal: Pick<Terminal, 'out'>
  isColored: boolean
  /** Clears the progress line; called before anything is printed. */
  clearProgress: () => void
}

/** `svc doctor`: prints the findings of each check as it ends. Returns whether there were no faults. */
export async function runDoctor(options: Options): Promise<boolean> {
  const { doctor, json, terminal, isColored, clearProgress } = options
  const all: Result[] = []
  for await (const results of doctor.examine()) {
    all.push(...results)
    clearProgress()
    // As bytes, which may have colours.
    const lines = results.map((result) => toLines(result, isColored)).join('')
    if (!json) terminal.out(Buffer.from(lines))
  }
  terminal.out(json ? toSafeJson(all) : `\n${toSummary(all)}\n`)
  return !all.some(({ level }) => level === 'fault')
}

function toLines({ level, check, found, fix }: Result, isColored: boolean): string {
  const { text, color } = marks[level]
  const padded = text.padEnd(markWidth)
  const mark = isColored ? styleText(color, padded, { validateStream: false }) : padded
  const line = `${mark}${check.padEnd(idWidth)}${printable(found)}\n`
  return fix === null ? line : `${line}${' '.repeat(markWidth + idWidth)}fix: ${printable(fix)}\n`
}

function toSummary(results: Result[]): string {
  const count = (wanted: Level) => results.filter(({ level }) => level === wanted).length
  const [faults, warnings, skipped] = [count('fault'), count('warning'), count('skipped')]
  const checks = new Set(results.map(({ check }) => check)).size
  const rest = skipped === 0 ? '' : `, ${skipped} skipped`
  return `${checks} checks: ${countOrNo(faults, 'fault')}, ${countOrNo(warnings, 'warning')}${rest}.`
}
