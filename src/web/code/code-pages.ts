import { importProgress } from '../import-progress.ts'
import { cachedPage, page, Redirect, type SharedContext, type View } from '../page.ts'
import type { ReadOperation } from '../read-operations.ts'
import { isShortId, toQuery, toTarget, unless } from './code-target.ts'
import { emptyRepositoryView, orNoCommits } from './empty-repository.ts'
import { fileView } from './file-view.ts'
import { findView } from './find-view.ts'
import { folderView } from './folder-view.ts'
import { rawFile } from './raw-files.ts'

const operations: [ReadOperation, ...ReadOperation[]] = [
  'getRepository',
  'getTree',
  'getFile',
  'listBranches',
  'listTags',
  'listCommits',
  'listRuns',
  'listPushes',
  'listCollaborators',
]

/** The pages of files and folders. */
export const codePages = [
  cachedPage('/r/:name', operations, {
    weight: 'git',
    audience: 'code',
    styles: 'code',
    show: repositoryView,
  }),
  cachedPage('/r/:name/src/:target*', operations, {
    weight: 'git',
    audience: 'code',
    styles: 'code',
    show: (context) => ofTarget(context, sourceView),
  }),
  page('/r/:name/raw/:target*', ['getFile'], { weight: 'git', audience: 'code', show: rawFile }),
  cachedPage('/r/:name/find/:target*', ['getRepository', 'getTree'], {
    weight: 'git',
    audience: 'code',
    styles: 'code',
    show: (context) => ofTarget(context, findView),
  }),
]

function ofTarget<T>(context: SharedContext, show: (context: SharedContext) => Promise<T>) {
  const target = toTarget(context.params.target)
  return orNoCommits(context, { ...target, tab: 'code' }, () => show(context))
}

async function repositoryView(context: SharedContext): Promise<View | Redirect> {
  const { read, readPage, params, to } = context
  const repository = await read('getRepository')
  const { name, defaultBranch: rev } = repository
  if (name !== params.name) return new Redirect(to.repository(name))
  const progress = await importProgress(repository, context)
  if (progress) return { title: `${name} · svc`, repository: name, tab: 'code', body: progress }
  const listed = repository.empty
    ? undefined
    : await readPage('getTree', { query: { rev } }).catch(unless('revision_not_found'))
  if (!listed) return emptyRepositoryView(context, repository)
  const { value: tree, next } = listed
  return folderView(context, { repository, rev, tree, next })
}

async function sourceView(context: SharedContext): Promise<View | Redirect> {
  const { read, readPage, params, to, query } = context
  const { rev, path } = toTarget(params.target)
  const repository = await read('getRepository')
  const { name } = repository
  const wanted = toQuery(rev, path)
  const cursor = query.get('cursor') ?? undefined
  const listed = await readPage('getTree', { query: { ...wanted, cursor } }).catch(
    unless('path_not_found'),
  )
  if (listed) {
    const { value: tree, next } = listed
    if (isShortId(rev, tree.commit)) return new Redirect(to.src(name, tree.commit, path))
    return folderView(context, { repository, rev, tree, next })
  }
  const file = await read('getFile', { query: wanted })
  if (isShortId(rev, file.commit)) return new Redirect(to.src(name, file.commit, path))
  return fileView(context, { repository, rev, path, file })
}
