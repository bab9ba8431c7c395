import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Command } from 'commander'
import { createProgram } from './program.ts'

const notCalled = () => assert.fail('is replaced')

test('an option that a command above has, too, is that of the command after which it is', async () => {
  const compared: string[] = []
  const count = commandsBelow(programOf()).length
  for (let index = 0; index < count; index++) {
    // The values of an earlier command line would stay.
    const program = programOf()
    const command = commandsBelow(program)[index] ?? assert.fail()
    const names = [...ancestorsOf(command).toReversed(), command].map((one) => one.name()).slice(1)
    const above = new Set(ancestorsOf(command).flatMap((one) => one.options.flatMap(flagsOf)))
    for (const option of command.options) {
      for (const flag of flagsOf(option).filter((one) => above.has(one))) {
        const value = option.required ? [option.argChoices?.[0] ?? '1'] : []
        const required = command.registeredArguments.filter((argument) => argument.required)
        command.action(() => {})
        await program.parseAsync([...names, ...required.map(() => 'x'), flag, ...value], {
          from: 'user',
        })
        assert.ok(command.opts()[option.attributeName()], `${names.join(' ')} ${flag}`)
        compared.push(`${names.join(' ')} ${flag}`)
      }
    }
  }
  for (const expected of ['changes land --version', 'changes comment --version'])
    assert.ok(compared.includes(expected), compared.join())
  assert.ok(compared.includes('backup verify --json'), compared.join())
})

function programOf(): Command {
  const terminal = { out: notCalled, err: notCalled } as never
  const client = {} as never
  const others = { serve: notCalled, mcp: notCalled, doctor: notCalled, runner: notCalled }
  const tools = { withApp: notCalled, withTools: notCalled, runnerDoctor: notCalled }
  return createProgram({ version: '1', terminal, client, run: notCalled, ...others, ...tools })
}

function commandsBelow(command: Command): Command[] {
  return command.commands.flatMap((one) => [one, ...commandsBelow(one)])
}

function ancestorsOf({ parent }: Command): Command[] {
  return parent ? [parent, ...ancestorsOf(parent)] : []
}

function flagsOf({ short, long }: { short?: string; long?: string }): string[] {
  return [short, long].filter((flag) => flag !== undefined)
}
