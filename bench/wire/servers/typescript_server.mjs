// The TypeScript SDK 2.x: one factory for both eras, served by node:http or stdio, as its README shows.
// `node typescript_server.mjs http PORT` or `node typescript_server.mjs stdio`

import { createServer } from 'node:http';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { localhostHostValidation, localhostOriginValidation, toNodeHandler } from '@modelcontextprotocol/node';
import { z } from 'zod';

const numbers = z.object({ a: z.number().int(), b: z.number().int() });
const words = z.object({ text: z.string() });
const total = z.object({ result: z.number().int() });
const echoed = z.object({ result: z.string() });

function bench() {
    const server = new McpServer({ name: 'bench', version: '1.0.0' });
    server.registerTool(
        'add',
        { description: 'Add two numbers.', inputSchema: numbers, outputSchema: total },
        async ({ a, b }) => answer(a + b)
    );
    server.registerTool(
        'echo',
        { description: 'Give back what was given.', inputSchema: words, outputSchema: echoed },
        ({ text }) => answer(text)
    );
    return server;
}

function answer(result) {
    return { content: [{ type: 'text', text: String(result) }], structuredContent: { result } };
}

const [transport, port] = process.argv.slice(2);
if (transport === 'stdio') {
    serveStdio(bench);
} else {
    const host = localhostHostValidation();
    const origin = localhostOriginValidation();
    const handle = toNodeHandler(createMcpHandler(bench));
    createServer((request, response) => {
        if (host(request, response) && origin(request, response)) void handle(request, response);
    }).listen(Number(port), '127.0.0.1');
}
