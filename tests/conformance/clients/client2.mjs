// The official TypeScript SDK, second generation: node client2.mjs http|stdio legacy|auto|pinned URL | COMMAND ...

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { answer, completion, roots, run, tell } from "./story.mjs";

const MODES = { legacy: "legacy", auto: "auto", pinned: { pin: "2026-07-28" } };

function transportTo(kind, [first, ...others]) {
    if (kind === "http") return new StreamableHTTPClientTransport(new URL(first));
    return new StdioClientTransport({ command: first, args: others, env: process.env, stderr: "inherit" });
}

await run(async (kind, era, target) => {
    let heard = () => {};
    const client = new Client(
        { name: "client2", version: "1.0.0" },
        {
            capabilities: { elicitation: {}, sampling: {}, roots: {} },
            versionNegotiation: { mode: MODES[era] },
            listChanged: { tools: { onChanged: () => heard() } },
        },
    );
    client.setRequestHandler("elicitation/create", async (request) => answer(request.params));
    client.setRequestHandler("sampling/createMessage", async () => completion);
    client.setRequestHandler("roots/list", async () => roots);
    const nextChange = () => new Promise((resolve) => (heard = resolve));
    const call = (name, args, options) => client.callTool({ name, arguments: args }, options);
    await client.connect(transportTo(kind, target));
    const revision = client.getNegotiatedProtocolVersion();
    const watch = async (uri, heardOf) => {
        client.setNotificationHandler("notifications/resources/updated", (notice) => heardOf(notice.params.uri));
        if (revision < "2026-07-28") await client.subscribeResource({ uri });
        else await client.listen({ resourceSubscriptions: [uri] });
    };
    const story = await tell(client, call, nextChange, watch);
    story.revision = revision;
    await client.close();
    return story;
});
