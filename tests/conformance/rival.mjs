// The small server of tests/support/servers/peer_servers.py, built with the TypeScript SDK 2.x as its README shows.
// `node rival.mjs PORT`

import { createServer } from 'node:http';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { localhostHostValidation, localhostOriginValidation, toNodeHandler } from '@modelcontextprotocol/node';
import { z } from 'zod';

const point = z.object({ x: z.number(), y: z.number().default(0) });

function rival() {
    const server = new McpServer({ name: 'rival', version: '1' });
    const offer = (name, description, shape, run) =>
        server.registerTool(name, { description, inputSchema: z.object(shape) }, async given => text(run(given)));
    offer('add', 'Add two whole numbers.', { a: z.number().int(), b: z.number().int().default(1) }, ({ a, b }) => a + b);
    offer('echo', 'Say it again.', { text: z.string() }, given => given.text);
    offer('total', 'Add many numbers.', { values: z.array(z.number()) }, ({ values }) => values.reduce((sum, each) => sum + each, 0));
    offer('move', 'Move a point to the right.', { point, by: z.number().default(1) }, ({ point, by }) => ({ ...point, x: point.x + by }));
    offer('switch', 'Turn it on or off.', { on: z.boolean(), note: z.string().nullish() }, ({ on, note }) => `${on ? 'on' : 'off'}, ${note ?? 'None'}`);
    offer('refuse', 'Refuse, in words.', {}, () => {
        throw new Error('not today');
    });
    return server;
}

function text(value) {
    return { content: [{ type: 'text', text: typeof value === 'string' ? value : JSON.stringify(value) }] };
}

const host = localhostHostValidation();
const origin = localhostOriginValidation();
const handle = toNodeHandler(createMcpHandler(rival));
createServer((request, response) => {
    if (host(request, response) && origin(request, response)) void handle(request, response);
}).listen(Number(process.argv[2]), '127.0.0.1');
