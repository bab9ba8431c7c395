import { Readable } from 'node:stream'
import { Type } from 'typebox'
import { requireRef } from '#access/may.ts'
import { Problem } from '#base/problem.ts'
import { closed } from '#base/schema-options.ts'
import { toContentDisposition } from '#http/headers.ts'
import { type FindRequest, nothing, route } from '#http/route.ts'
import type { Repositories, Repository } from '#repositories/repositories.ts'
import type { Artifacts } from './artifacts.ts'
import { type ArtifactFormat, artifactTypes } from './convert-artifact.ts'
import type { Downloads } from './downloads.ts'
import type { HeldRun } from './held-run.ts'
import { Artifact, toArtifact } from './run-file-schemas.ts'

type Dependencies = {
  repositories: Repositories
  findRun: (repository: Repository, idOrNumber: string) => Promise<Pick<HeldRun, 'id' | 'ref'>>
  artifacts: Artifacts
  downloads: Downloads
}

const problems = [
  'repository_not_found',
  'repository_importing',
  'run_not_found',
  'artifact_not_found',
] as const

/** The routes of artifacts for people. */
export function artifactRoutes({ repositories, findRun, artifacts, downloads }: Dependencies) {
  const open = ({ principal, permission, params }: FindRequest<{ name: string }>) =>
    repositories.open(principal, params.name, permission)

  return [
    route('GET', '/repos/:name/workflows/:id/artifacts', {
      operationId: 'listArtifacts',
      tag: 'workflow runs',
      summary: 'List the artifacts of a workflow run',
      description: 'Lists those of all attempts that have not expired, oldest first.',
      permission: 'workflow:read',
      find: open,
      reply: { 200: Type.Array(Artifact) },
      problems: ['repository_not_found', 'repository_importing', 'run_not_found'],
      handle: async ({ found, params }) => {
        const { id } = await findRun(found, params.id)
        return (await artifacts.list(id)).map(toArtifact)
      },
    }),
    route('GET', '/repos/:name/workflows/:id/artifacts/:artifact', {
      operationId: 'getArtifact',
      tag: 'workflow runs',
      summary: 'Download an artifact of a workflow run',
      description:
        'The `artifact` is an id, or a name, which is that of the newest artifact with this name.',
      permission: 'workflow:read',
      find: open,
      isLongLived: true,
      query: Type.Object(
        {
          format: Type.Optional(
            Type.Unsafe<ArtifactFormat>({
              type: 'string',
              enum: Object.keys(artifactTypes),
              description:
                '`tar.gz`, `zip`, `tar` or `tar.zst`, which is how it is stored; by default `tar.gz`',
            }),
          ),
        },
        closed,
      ),
      produces: artifactTypes['tar.gz'],
      otherTypes: [artifactTypes.zip, artifactTypes.tar, artifactTypes['tar.zst']],
      reply: { 200: Type.String({ format: 'binary' }) },
      problems: [...problems, 'artifact_unreadable', 'git_busy', 'storage_full'],
      handle: async ({ principal, found, params, query, isHead, clientSignal, ...context }) => {
        const { format = 'tar.gz' } = query
        const { id } = await findRun(found, params.id)
        const artifact = await artifacts.find(id, params.artifact)
        const { setType, setHeader } = context
        setType(artifactTypes[format])
        setHeader('content-disposition', toContentDisposition(`${artifact.name}.${format}`))
        if (format === 'tar.zst') setHeader('content-length', String(artifact.size))
        if (isHead) return Readable.from([])
        const signal = clientSignal()
        const content = await downloads.openAs(artifact, { format, principal, signal })
        if (content) return content
        throw new Problem('artifact_not_found', `The file of "${artifact.name}" is missing.`)
      },
    }),
    route('DELETE', '/repos/:name/workflows/:id/artifacts/:artifact', {
      operationId: 'deleteArtifact',
      tag: 'workflow runs',
      summary: 'Delete an artifact of a workflow run',
      permission: 'workflow:trigger',
      find: open,
      reply: { 204: nothing },
      problems: [...problems, 'token_limited'],
      handle: async ({ principal, found, params }) => {
        const { id, ref } = await findRun(found, params.id)
        requireRef(principal, ref)
        await artifacts.remove(principal, await artifacts.find(id, params.artifact))
      },
    }),
  ]
}
