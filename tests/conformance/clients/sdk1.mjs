// The official TypeScript SDK, first generation: node sdk1.mjs http|sse|stdio legacy URL | COMMAND ...

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { SSEClientTransport } from "@modelcontextprotocol/sdk/client/sse.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import {
    CreateMessageRequestSchema,
    ElicitRequestSchema,
    ListRootsRequestSchema,
    ResourceUpdatedNotificationSchema,
    ToolListChangedNotificationSchema,
} from "@modelcontextprotocol/sdk/types.js";
import { answer, completion, roots, run, tell } from "./story.mjs";

function transportTo(kind, [first, ...others]) {
    if (kind === "http") return new StreamableHTTPClientTransport(new URL(first));
    if (kind === "sse") return new SSEClientTransport(new URL(first));
    return new StdioClientTransport({ command: first, args: others, env: process.env, stderr: "inherit" });
}

await run(async (kind, _era, target) => {
    const capabilities = { elicitation: {}, sampling: {}, roots: {} };
    const client = new Client({ name: "sdk1", version: "1.0.0" }, { capabilities });
    client.setRequestHandler(ElicitRequestSchema, async (request) => answer(request.params));
    client.setRequestHandler(CreateMessageRequestSchema, async () => completion);
    client.setRequestHandler(ListRootsRequestSchema, async () => roots);
    const nextChange = () =>
        new Promise((heard) => client.setNotificationHandler(ToolListChangedNotificationSchema, heard));
    const call = (name, args, options) => client.callTool({ name, arguments: args }, undefined, options);
    const watch = async (uri, heard) => {
        client.setNotificationHandler(ResourceUpdatedNotificationSchema, (notice) => heard(notice.params.uri));
        await client.subscribeResource({ uri });
    };
    const transport = transportTo(kind, target);
    let revision = null;
    const tellRevision = transport.setProtocolVersion?.bind(transport);
    transport.setProtocolVersion = (agreed) => {
        revision = agreed;
        tellRevision?.(agreed);
    };
    await client.connect(transport);
    const story = { ...(await tell(client, call, nextChange, watch)), revision };
    await client.close();
    return story;
});
