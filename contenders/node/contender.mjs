// A contender of the lab: undici, the HTTP client of Node.
//
// It speaks trilane.contender/1 (docs/contenders.md): a plan as one line of JSON on standard
// input, "ready", the line "start", "done" when the last response is read, then the result.

import { readFileSync, writeSync } from 'node:fs'
import { createInterface } from 'node:readline'

const SCHEMA = 'trilane.contender/1'
const NEEDED = JSON.parse(readFileSync(new URL('./package.json', import.meta.url), 'utf8'))
  .engines.node.replace('>=', '')

function emit (event) {
  writeSync(1, JSON.stringify(event) + '\n')
}

/** Whether this Node is as new as undici needs it. */
function newEnough (having, needed) {
  const [ours, theirs] = [having, needed].map(version => version.split('.').map(Number))
  const differing = theirs.findIndex((part, n) => part !== ours[n])
  return differing === -1 || ours[differing] > theirs[differing]
}

/** Why the plan cannot be carried out, or nothing. */
function refusal (plan) {
  const together = ['chunks', 'multiplexed'].includes(plan.strategy)
  if (!newEnough(process.versions.node, NEEDED)) {
    return `undici needs Node.js ${NEEDED} or newer, this is ${process.versions.node}`
  }
  if (plan.schema !== SCHEMA) return `the plan's schema is ${plan.schema}, this program speaks ${SCHEMA}`
  if (plan.version === 'h3') return 'undici has no HTTP/3'
  if (plan.body_file || plan.discard) return 'this program holds whole bodies in memory'
  if (plan.repeat_processes > 0) {
    return 'this program repeats a workload in one process only: set repeat_processes to 0'
  }
  if (plan.repeat > 1 && (plan.warmup || plan.warmup_s)) {
    return 'repetitions are not warmed up: set warmup to 0'
  }
  if (together && plan.version === 'h1') return `HTTP/1.1 has no streams, so ${plan.strategy} is impossible`
  if (together && !plan.session) return `${plan.strategy} is about one connection, so it needs session = true`
  return null
}

function libraryVersion () {
  const manifest = new URL('./node_modules/undici/package.json', import.meta.url)
  return JSON.parse(readFileSync(manifest, 'utf8')).version
}

async function warmUp (runner, plan) {
  if (!plan.warmup && !plan.warmup_s) return
  const work = plan.workload
  const paths = work.kind === 'urls' ? work.paths : [work.index ?? work.start]
  const urls = { kind: 'urls', paths, count: null, duration_s: null }
  runner.open()
  if (plan.warmup_s) await runner.perform({ ...urls, duration_s: plan.warmup_s })
  if (plan.warmup) await runner.perform({ ...urls, count: plan.warmup })
  runner.forget()
}

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]()
const plan = JSON.parse((await lines.next()).value)
const reason = refusal(plan)
if (reason) {
  emit({ event: 'cannot', reason })
  process.exit(0)
}
// Only now: on an older Node these imports fail.
const { Factory } = await import('./client.mjs')
const { Runner } = await import('./work.mjs')
const factory = new Factory(plan)
const runner = new Runner(plan, factory)
await warmUp(runner, plan)
emit({
  event: 'ready',
  library: 'undici',
  library_version: libraryVersion(),
  runtime: `Node.js ${process.versions.node}`,
  sessions: plan.session ? 'one' : 'a new one for each request'
})
if ((await lines.next()).value?.trim() !== 'start') process.exit(0)

const began = performance.now()
const repetitions = []
for (let n = 0; n < Math.max(plan.repeat ?? 1, 1); n++) {
  const start = performance.now()
  runner.open()
  await runner.perform(plan.workload)
  await runner.close()
  repetitions.push((performance.now() - start) / 1000)
}
const elapsed = (performance.now() - began) / 1000
emit({ event: 'done' })
// JSON.stringify knows no BigInt, and a sum of checksums outgrows a double.
const result = JSON.stringify({
  event: 'result',
  ...runner.tally.toJSON(),
  connections: factory.opened,
  elapsed_s: elapsed,
  repetitions_s: repetitions
})
writeSync(1, `${result.slice(0, -1)},"body_digest":${BigInt.asUintN(64, runner.tally.digest)}}\n`)
process.exit(0)
