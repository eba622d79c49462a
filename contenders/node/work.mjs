// The workloads and the strategies, as docs/contenders.md describes them.

import { crc32 } from 'node:zlib'
import { build } from 'hdr-histogram-js'
import { kindOf } from './client.mjs'

const LOWEST_NS = 1_000
const HIGHEST_NS = 3_600_000_000_000

/** The books of a run: every request started ends here. */
export class Tally {
  ok = 0
  failed = {}
  examples = {}
  status = {}
  versions = {}
  bytes = 0
  digest = 0n
  latencies = []

  answered (answer, nanoseconds) {
    this.ok += 1
    this.digest += BigInt(crc32(answer.body))
    this.#received(answer)
    this.latencies.push(nanoseconds)
  }

  broke (error, nanoseconds) {
    const kind = kindOf(error)
    this.failed[kind] = (this.failed[kind] ?? 0) + 1
    this.examples[kind] ??= `${error.code ?? error.name}: ${error.message}`
    if (error.answer) this.#received(error.answer)
    // A failure took its time, too: it stays in the distribution.
    this.latencies.push(nanoseconds)
  }

  #received (answer) {
    this.status[answer.status] = (this.status[answer.status] ?? 0) + 1
    this.versions[answer.version] = (this.versions[answer.version] ?? 0) + 1
    this.bytes += answer.body.length
  }

  toJSON () {
    const failures = Object.values(this.failed).reduce((sum, count) => sum + count, 0)
    return {
      started: this.ok + failures,
      ok: this.ok,
      failed: this.failed,
      examples: this.examples,
      abandoned: 0,
      status: this.status,
      versions: this.versions,
      body_bytes: this.bytes,
      latency: this.latencies.length ? { hdr: histogram(this.latencies) } : null
    }
  }
}

function histogram (latencies) {
  const made = build({
    bitBucketSize: 64,
    lowestDiscernibleValue: LOWEST_NS,
    highestTrackableValue: HIGHEST_NS,
    numberOfSignificantValueDigits: 3,
    autoResize: false
  })
  for (const each of latencies) {
    made.recordValue(Math.min(Math.max(each, LOWEST_NS), HIGHEST_NS))
  }
  return made.encodeIntoCompressedBase64()
}

/** Runs workloads through one session, or through a new one for each request. */
export class Runner {
  #session = null

  constructor (plan, factory) {
    this.plan = plan
    this.factory = factory
    this.tally = new Tally()
  }

  open () {
    if (this.plan.session) this.#session ??= this.factory.session()
  }

  async close () {
    await this.#session?.close()
    this.#session = null
  }

  forget () {
    this.tally = new Tally()
  }

  async perform (work) {
    if (work.kind === 'crawl') {
      await this.#crawl(work)
    } else if (work.kind === 'index') {
      const items = []
      await this.#all([work.index], body => {
        for (const id of JSON.parse(body)) items.push(work.item.replaceAll('{id}', String(id)))
      })
      await this.#all(items.slice(0, work.count ?? undefined))
    } else {
      await this.#drain(inTurn(work))
    }
  }

  /** Paths known beforehand. */
  async #all (paths, read = null) {
    await this.#drain(paths[Symbol.iterator](), read)
  }

  async #drain (paths, read = null) {
    if (this.plan.strategy === 'chunks') {
      for (;;) {
        const chunk = take(paths, this.plan.chunk ?? this.plan.in_flight)
        if (chunk.length === 0) return
        await Promise.all(chunk.map(path => this.#one(path, read)))
      }
    }
    // A shared iterator: each of the workers takes the next path when its response is read.
    const worker = async () => {
      for (const path of { [Symbol.iterator]: () => ({ next: () => paths.next() }) }) {
        await this.#one(path, read)
      }
    }
    const workers = this.plan.strategy === 'serial' ? 1 : this.plan.in_flight
    await Promise.all(Array.from({ length: workers }, worker))
  }

  /** Rounds of a chunk, or every page as soon as it is known and a place is free. */
  async #crawl (work) {
    const limit = work.count ?? Infinity
    const seen = new Set([canonical(work.start)])
    const queue = [work.start]
    const find = links(this.plan.origin)
    const visit = path => this.#one(path, body => {
      for (const found of find(body)) {
        if (seen.size >= limit) break
        if (!seen.has(found)) {
          seen.add(found)
          queue.push(found)
        }
      }
    })
    if (this.plan.strategy === 'chunks') {
      while (queue.length) {
        await Promise.all(queue.splice(0, this.plan.chunk ?? this.plan.in_flight).map(visit))
      }
      return
    }
    const places = this.plan.strategy === 'serial' ? 1 : this.plan.in_flight
    const running = new Set()
    while (queue.length || running.size) {
      while (queue.length && running.size < places) {
        const task = visit(queue.shift()).finally(() => running.delete(task))
        running.add(task)
      }
      await Promise.race(running)
    }
  }

  async #one (path, read) {
    const began = process.hrtime.bigint()
    const session = this.#session ?? this.factory.session()
    let took = 0
    try {
      const answer = await session.fetch(path)
      took = Number(process.hrtime.bigint() - began)
      read?.(answer.body)
      this.tally.answered(answer, took)
    } catch (error) {
      this.tally.broke(error, took || Number(process.hrtime.bigint() - began))
    }
    if (session !== this.#session) await session.close()
  }
}

function * inTurn (work) {
  const deadline = work.duration_s === null ? null : performance.now() + work.duration_s * 1000
  const count = work.count ?? Infinity
  for (let n = 0; n < count; n++) {
    if (deadline !== null && performance.now() >= deadline) return
    yield work.paths[n % work.paths.length]
  }
}

function take (iterator, count) {
  const taken = []
  while (taken.length < count) {
    const { value, done } = iterator.next()
    if (done) break
    taken.push(value)
  }
  return taken
}

/** The links that a crawl follows, as the Python contenders do: absolute ones of the origin first. */
function links (origin) {
  const literal = origin.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')
  const patterns = [new RegExp(`<a href="${literal}(/\\S+)"`, 'g'), /<a href="(\/[^/]\S+)"/g]
  return body => {
    const text = body.toString('utf8')
    return patterns.flatMap(pattern => [...text.matchAll(pattern)].map(match => canonical(match[1])))
  }
}

/** The path by which a page is known: without a slash at the end. */
function canonical (path) {
  return path.replace(/\/+$/, '')
}
