import type { App } from '#app.ts'
import type { LocalActions, OptionValues } from '../client/client-context.ts'
import type { AuditOptions } from './audit-command.ts'
import type { Terminal } from './terminal.ts'

type Options = {
  terminal: Terminal
  withApp: (run: (app: App) => Promise<void>) => Promise<void>
}

const admin = 'admin'

/** Client commands on a data directory. Their modules are loaded when one of them runs. */
export function localActions({ terminal, withApp }: Options): LocalActions {
  function action<Values>(run: (app: App, names: string[], values: Values) => Promise<void>) {
    return (names: string[], options: OptionValues) =>
      // The operations declare the options of these types.
      withApp((app) => run(app, names, options as Values))
  }

  const repositories = () => import('./repository-commands.ts')
  const deleted = () => import('./deleted-repository-commands.ts')
  const tokens = () => import('./token-commands.ts')
  const keys = () => import('./key-commands.ts')
  const secrets = () => import('./secret-commands.ts')
  type Of<
    Load extends () => Promise<object>,
    Name extends keyof Awaited<ReturnType<Load>>,
  > = Awaited<ReturnType<Load>>[Name] extends (...args: infer Args) => unknown ? Args : never

  const addKey = action<Partial<Of<typeof keys, 'addKey'>[2]>>(async (app, [key], options) => {
    const given = key === '' ? undefined : key
    await (await keys()).addKey(app, given, { username: admin, ...options }, terminal)
  })
  const importInto = action<{ username?: string; json?: boolean }>(
    async (app, [source = '', name], options) => {
      const { importRepository } = await import('./import-command.ts')
      const names: [string, string | undefined] = [source, name || undefined]
      await importRepository(app, names, { username: admin, ...options }, terminal)
    },
  )

  return {
    audit: action<AuditOptions>(async (app, _, options) => {
      const { listAudit } = await import('./audit-command.ts')
      await listAudit(app, options, terminal)
    }),
    'repos list': action<Of<typeof repositories, 'printRepositories'>[1]>(async (app, _, options) =>
      (await repositories()).printRepositories(app, options, terminal),
    ),
    'repos create': action<Partial<Of<typeof repositories, 'createRepository'>[2]>>(
      async (app, [name = ''], options) =>
        (await repositories()).createRepository(
          app,
          name,
          { username: admin, defaultBranch: 'main', ...options },
          terminal,
        ),
    ),
    'repos import': importInto,
    import: importInto,
    'repos delete': action<Of<typeof repositories, 'removeRepository'>[2]>(
      async (app, [name = ''], options) =>
        (await repositories()).removeRepository(app, name, options, terminal),
    ),
    'deleted-repos list': action<Of<typeof deleted, 'listDeletedRepositories'>[1]>(
      async (app, _, options) => (await deleted()).listDeletedRepositories(app, options, terminal),
    ),
    'deleted-repos restore': action<Of<typeof deleted, 'restoreRepository'>[2]>(
      async (app, [id = ''], options) =>
        (await deleted()).restoreRepository(app, id, options, terminal),
    ),
    'deleted-repos purge': action<Of<typeof deleted, 'purgeRepository'>[2]>(
      async (app, [id = ''], options) =>
        (await deleted()).purgeRepository(app, id, options, terminal),
    ),
    'tokens create': action<Partial<Of<typeof tokens, 'createToken'>[1]>>(async (app, _, options) =>
      (await tokens()).createToken(app, { name: 'command line', ...options }, terminal),
    ),
    'tokens list': action<Of<typeof tokens, 'printTokens'>[1]>(async (app, _, options) =>
      (await tokens()).printTokens(app, options, terminal),
    ),
    'tokens revoke': action<Of<typeof tokens, 'revokeToken'>[2]>(async (app, [id = ''], options) =>
      (await tokens()).revokeToken(app, id, options, terminal),
    ),
    'keys add': addKey,
    'keys-add': addKey,
    'keys list': action<Of<typeof keys, 'listKeys'>[1]>(async (app, _, options) =>
      (await keys()).listKeys(app, options, terminal),
    ),
    'keys remove': action<Of<typeof keys, 'removeKey'>[2]>(async (app, [id = ''], options) =>
      (await keys()).removeKey(app, id, options, terminal),
    ),
    'secrets list': action<Of<typeof secrets, 'printSecrets'>[2]>(
      async (app, [repository = ''], options) =>
        (await secrets()).printSecrets(app, repository, options, terminal),
    ),
    'secrets set': action<Of<typeof secrets, 'setSecret'>[2]>(
      async (app, [repository = '', name = ''], options) =>
        (await secrets()).setSecret(app, [repository, name], options, terminal),
    ),
    'secrets delete': action<Of<typeof secrets, 'removeSecret'>[2]>(
      async (app, [repository = '', name = ''], options) =>
        (await secrets()).removeSecret(app, [repository, name], options, terminal),
    ),
  }
}
