import { execFileSync } from 'node:child_process'
import { cpSync, rmSync } from 'node:fs'

// Compiles src/ to dist/: Node strips types from TypeScript files, but not within node_modules.
rmSync('dist', { recursive: true, force: true })
execFileSync('tsc', ['--project', 'tsconfig.build.json'], { stdio: 'inherit' })
cpSync('src/git/process/hooks', 'dist/git/process/hooks', { recursive: true })
cpSync('src/git/import/askpass', 'dist/git/import/askpass')
cpSync('src/git/process/prefork.sh', 'dist/git/process/prefork.sh')
