import { Type } from 'typebox'
import { type JsonRoute, route } from '#http/route.ts'
import type { Metrics } from './metrics.ts'

// The text format of Prometheus, https://prometheus.io/docs/instrumenting/exposition_formats/
const contentType = 'text/plain; version=0.0.4; charset=utf-8'

export function metricsRoutes({ render }: Pick<Metrics, 'render'>): JsonRoute[] {
  return [
    route('GET', '/metrics', {
      operationId: 'getMetrics',
      tag: 'service',
      summary: 'Get metrics in the Prometheus text format',
      permission: 'metrics:read',
      produces: contentType,
      reply: { 200: Type.String() },
      handle: render,
    }),
  ]
}
