// undici as the plan wants it: one version, one certificate authority, one or many connections.

import { readFileSync } from 'node:fs'
import { gunzipSync } from 'node:zlib'
import { Client, Pool, buildConnector } from 'undici'

/** A response that does not count, with the lab's kind of failure. */
export class Failure extends Error {
  constructor (kind, message, answer = null) {
    super(message)
    this.kind = kind
    this.answer = answer
  }
}

/** Makes sessions for one plan and counts the connections they open. */
export class Factory {
  constructor (plan) {
    this.plan = plan
    this.opened = 0
    this.ca = plan.cacert ? readFileSync(plan.cacert) : undefined
    this.timeout = plan.timeout_s * 1000
  }

  session () {
    const options = {
      allowH2: this.plan.version !== 'h1',
      useH2c: this.plan.version === 'h2c',
      connect: this.#connector(),
      headersTimeout: this.timeout,
      bodyTimeout: this.timeout,
      // Idle connections stay: the plan says how many there are.
      keepAliveTimeout: 600_000,
      // undici's word for requests at once on a connection. On HTTP/2 the server limits them, too.
      pipelining: this.plan.version === 'h1' ? 1 : Math.max(this.plan.in_flight, this.plan.chunk ?? 0)
    }
    const limit = connections(this.plan)
    const dispatcher = limit === 1
      ? new Client(this.plan.origin, options)
      : new Pool(this.plan.origin, { ...options, connections: limit })
    return new Session(dispatcher, this.plan)
  }

  /** undici asks for either version by ALPN and takes what it gets; this takes what was asked for. */
  #connector () {
    const version = this.plan.version
    const alpn = version === 'h2' ? 'h2' : 'http/1.1'
    const connect = buildConnector({
      allowH2: version !== 'h1',
      useH2c: version === 'h2c',
      ca: this.ca,
      timeout: this.timeout,
      maxCachedSessions: 0
    })
    return (target, callback) => connect(target, (error, socket) => {
      if (error) return callback(error, null)
      this.opened += 1
      const given = socket.alpnProtocol || 'http/1.1'
      if (socket.encrypted && given !== alpn) {
        socket.destroy()
        return callback(new Failure('protocol', `asked for ${version}, the server chose ${given}`), null)
      }
      callback(null, socket)
    })
  }
}

function connections (plan) {
  if (plan.connections) return plan.connections
  return ['serial', 'chunks', 'multiplexed'].includes(plan.strategy) ? 1 : plan.in_flight
}

class Session {
  constructor (dispatcher, plan) {
    this.dispatcher = dispatcher
    this.plan = plan
    this.headers = plan.headers.flat()
    const named = plan.headers.some(([name]) => name.toLowerCase() === 'accept-encoding')
    if (!named) this.headers.push('accept-encoding', plan.gzip ? 'gzip' : 'identity')
    this.body = plan.body === null ? null : Buffer.from(plan.body, 'base64')
    // undici sends a POST alone on its connection unless it is told that it may be sent again.
    this.idempotent = plan.version === 'h1' ? undefined : true
  }

  /** One request and its whole body. The version is what the connection was made for, or fails. */
  async fetch (path) {
    const response = await this.dispatcher.request({
      path, method: this.plan.method, headers: this.headers, body: this.body, idempotent: this.idempotent
    })
    let body = Buffer.from(await response.body.arrayBuffer())
    if (response.headers['content-encoding'] === 'gzip') body = gunzipSync(body)
    const answer = { status: response.statusCode, version: this.plan.version, body }
    if (answer.status >= 400) {
      throw new Failure('status', `${answer.status} for ${path}`, answer)
    }
    return answer
  }

  async close () {
    await this.dispatcher.close()
  }
}

const KINDS = new Map([
  ['ENOTFOUND', 'dns'], ['EAI_AGAIN', 'dns'],
  ['ECONNREFUSED', 'refused'],
  ['ECONNRESET', 'reset'], ['EPIPE', 'reset'], ['ERR_HTTP2_STREAM_ERROR', 'reset'],
  ['EHOSTUNREACH', 'connect'], ['ENETUNREACH', 'connect'],
  ['EMFILE', 'limit'], ['EADDRNOTAVAIL', 'limit'],
  ['ETIMEDOUT', 'timeout'], ['UND_ERR_CONNECT_TIMEOUT', 'timeout'],
  ['UND_ERR_HEADERS_TIMEOUT', 'timeout'], ['UND_ERR_BODY_TIMEOUT', 'timeout'],
  ['UND_ERR_SOCKET', 'closed'], ['UND_ERR_CLOSED', 'closed'], ['UND_ERR_DESTROYED', 'closed'],
  ['UND_ERR_RES_CONTENT_LENGTH_MISMATCH', 'body'], ['Z_DATA_ERROR', 'body'], ['Z_BUF_ERROR', 'body']
])
const CERTIFICATE = /CERT|SELF_SIGNED|UNABLE_TO_|^ERR_TLS|^ERR_SSL|^EPROTO$/

/** The lab's name for what went wrong. */
export function kindOf (error) {
  if (error instanceof Failure) return error.kind
  for (let link = error; link; link = link.cause) {
    if (link instanceof Failure) return link.kind
    const code = String(link.code ?? '')
    if (/GOAWAY/.test(link.message)) return 'goaway'
    if (KINDS.has(code)) return KINDS.get(code)
    if (CERTIFICATE.test(code)) return 'tls'
  }
  return 'protocol'
}
