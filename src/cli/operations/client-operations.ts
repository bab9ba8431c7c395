import { accessOperations } from './access-operations.ts'
import { browseOperations } from './browse-operations.ts'
import { changeOperations } from './change-operations.ts'
import { namespaceOperations } from './namespace-operations.ts'
import type { ClientOperation } from './operation.ts'
import { repositoryOperations } from './repository-operations.ts'
import { runOperations } from './run-operations.ts'
import { serviceOperations } from './service-operations.ts'
import { webhookOperations } from './webhook-operations.ts'
import { writeOperations } from './write-operations.ts'

/** All commands for operations of the API, in the order of the help. */
export const operations: ClientOperation[] = [
  ...repositoryOperations,
  ...namespaceOperations,
  ...accessOperations,
  ...serviceOperations,
  ...runOperations,
  ...browseOperations,
  ...writeOperations,
  ...changeOperations,
  ...webhookOperations,
]
