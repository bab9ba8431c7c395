import assert from 'node:assert/strict'
import { test } from 'node:test'
import { locateMemoryGroup } from './memory-controller.ts'

const v2Mount = '29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate'
const v1Mount = '35 25 0:31 / /sys/fs/cgroup/memory rw,nosuid shared:15 - cgroup cgroup rw,memory'
const emptyV2Mount = '28 25 0:25 / /sys/fs/cgroup/unified rw shared:9 - cgroup2 cgroup2 rw'

const machines = {
  'a service of systemd with version 2': {
    groups: '0::/system.slice/svc.service\n',
    mounts: `22 1 8:1 / / rw - ext4 /dev/sda1 rw\n${v2Mount}\n`,
    found: { version: 'cgroup v2', folder: '/sys/fs/cgroup/system.slice/svc.service' },
  },
  'a machine with both versions, where memory belongs to version 1': {
    groups: '9:name=systemd:/\n4:cpu,memory:/jobs/a\n0::/other\n',
    mounts: `${emptyV2Mount}\n${v1Mount.replace('rw,memory', 'rw,cpu,memory')}\n`,
    found: { version: 'cgroup v1', folder: '/sys/fs/cgroup/memory/jobs/a' },
  },
  'a container with a namespace of its own': {
    groups: '0::/\n',
    mounts: v2Mount,
    found: { version: 'cgroup v2', folder: '/sys/fs/cgroup' },
  },
  'a container that sees its part of the hierarchy': {
    groups: '4:memory:/docker/a/b\n',
    mounts: v1Mount.replace(' / /sys', ' /docker/a /sys'),
    found: { version: 'cgroup v1', folder: '/sys/fs/cgroup/memory/b' },
  },
  'a path with a space and a colon': {
    groups: '0::/a b:c\n',
    mounts: v2Mount.replace('/sys/fs/cgroup', '/sys/fs/c\\040group'),
    found: { version: 'cgroup v2', folder: '/sys/fs/c group/a b:c' },
  },
  'a group outside of what is mounted': {
    groups: '0::/../other\n',
    mounts: v2Mount,
    found: undefined,
  },
  'a part of the hierarchy that begins with the same letters': {
    groups: '4:memory:/docker/ab\n',
    mounts: v1Mount.replace(' / /sys', ' /docker/a /sys'),
    found: undefined,
  },
  'no control groups': { groups: '', mounts: '', found: undefined },
}

for (const [machine, { groups, mounts, found }] of Object.entries(machines)) {
  test(`the control group of this process is found on ${machine}`, () => {
    assert.deepEqual(locateMemoryGroup(groups, mounts), found)
  })
}
