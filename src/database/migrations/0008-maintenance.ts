import type { Migration } from './migration.ts'

// The state of maintenance of each repository. The mark `maintenance` is the last event whose pushes are counted. A lease
// keeps two servers from maintaining the same repository, and expires.
export const maintenanceTable: Migration = ({ milliseconds }) => [
  `create table maintenance (
    repository_id text primary key references repositories (id) on delete cascade,
    pushes        integer not null default 0,
    pushed_at     ${milliseconds},
    is_unpruned   integer not null default 1,
    wanted        text not null default '',
    wanted_at     ${milliseconds} not null default 0,
    lease_holder  text,
    lease_until   ${milliseconds} not null default 0,
    started_at    ${milliseconds} not null default 0,
    finished_at   ${milliseconds},
    pruned_at     ${milliseconds} not null default 0,
    report        text,
    failures      integer not null default 0,
    fault         text,
    not_before    ${milliseconds} not null default 0
  )`,
  `create index maintenance_wanted on maintenance (wanted) where wanted <> ''`,
  `insert into marks (name, value) values ('maintenance', 0)`,
]
