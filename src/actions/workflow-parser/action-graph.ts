import { quoted, unknownInput } from './source/fault-list.ts'
import type { Action, ActionStep, Fault, Note, Step, Template, Workflow } from './workflow.ts'

/** The folders of the actions that steps use, each once. */
export function usedActions(user: Workflow | Action): string[] {
  return [...new Set(stepsOf(user).flatMap((step) => (step.kind === 'action' ? step.path : [])))]
}

/** All steps of a workflow or an action. */
function stepsOf(user: Workflow | Action): Step[] {
  return 'jobs' in user ? user.jobs.flatMap(({ steps }) => steps) : user.steps
}

const maxDepth = 10
// Steps of a workflow including those of its actions, which multiply when nested.
const maxSteps = 1000

/** The folder of an action, by the path of its action.yml. */
export function folderOfAction(path: string): string {
  return path.split('/').slice(0, -1).join('/')
}

/** Folders of actions that are used and are not among the given ones. */
export function missingFolders(users: (Workflow | Action)[], given: string[]): string[] {
  return [...new Set(users.flatMap(usedActions))].filter((folder) => !given.includes(folder))
}

/** The size of an action: its steps, including those of nested actions, and its depth. */
type Size = { steps: number; depth: number }

/** Reports actions that use themselves, nest too deeply or have too many steps. */
export function actionGraphFaults(workflows: Workflow[], actions: Action[]): Fault[] {
  const faults: Fault[] = []
  const byFolder = new Map(actions.map((action) => [action.path, action]))
  const sizes = new Map<string, Size | 'open'>()

  function sizeOf(step: ActionStep): Size {
    const { path } = step
    const known = sizes.get(path)
    if (known && known !== 'open') return known
    const action = byFolder.get(path)
    if (!action) return { steps: 0, depth: 1 }
    if (known === 'open') {
      const message = `The action ${quoted(`./${path}`)} uses itself, directly or indirectly.`
      faults.push({ ...step.position, message, instead: 'Remove this step.' })
      return { steps: 0, depth: 1 }
    }
    sizes.set(path, 'open')
    const size = sizeWithin(action)
    sizes.set(path, { steps: size.steps, depth: size.depth + 1 })
    return { steps: size.steps, depth: size.depth + 1 }
  }

  function sizeWithin(user: Workflow | Action): Size {
    const inner = actionSteps(user).map(sizeOf)
    const own = stepsOf(user).length
    return {
      steps: inner.reduce((sum, { steps }) => sum + steps, own),
      depth: Math.max(0, ...inner.map(({ depth }) => depth)),
    }
  }

  for (const workflow of workflows) {
    const { steps, depth } = sizeWithin(workflow)
    const [first] = actionSteps(workflow)
    if (!first) continue
    if (depth > maxDepth) {
      const message = `Actions are nested ${depth} levels deep; the maximum is ${maxDepth}.`
      faults.push({
        ...first.position,
        message,
        instead: 'Combine their steps into fewer actions.',
      })
    } else if (steps > maxSteps) {
      const message = `The workflow has ${steps} steps, including those of its actions; the maximum is ${maxSteps}.`
      faults.push({ ...first.position, message, instead: 'Use fewer actions, or split the file.' })
    }
  }
  for (const action of actions) sizeWithin(action)
  return faults
}

/** Notes inputs that an action of the repository does not have: as on GitHub, they have no effect. */
export function actionInputNotes(users: (Workflow | Action)[], actions: Action[]): Note[] {
  const byFolder = new Map(actions.map((action) => [action.path, action]))
  return users.flatMap(actionSteps).flatMap(({ path, with: given, position }) => {
    const inputs = byFolder.get(path)?.inputs
    if (!inputs || typeof given.text === 'string') return []
    const known = new Set(Object.keys(inputs).map((name) => name.toLowerCase()))
    return Object.entries(given as Record<string, Template>)
      .filter(([name]) => !known.has(name.toLowerCase()))
      .map(([name, value]) => ({
        ...(value.position ?? position),
        message: `${unknownInput(`action ./${path}`, name)} It has no effect.`,
      }))
  })
}

/** The steps that use an action of the repository. */
export function actionSteps(user: Workflow | Action): ActionStep[] {
  return stepsOf(user).filter((step) => step.kind === 'action')
}
