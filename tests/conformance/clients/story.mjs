// What a client goes through with the server of these tests, told as one JSON object.
// `call(name, args, options)`, `nextChange()` and `watch(uri, heard)` are what differs between the generations of the
// SDK.

export function answer(params) {
    const fields = Object.keys(params.requestedSchema.properties);
    const known = { name: "Ada", color: "blue", context: "tests" };
    return { action: "accept", content: Object.fromEntries(fields.map((field) => [field, known[field]])) };
}

export const completion = {
    role: "assistant",
    content: { type: "text", text: "from the model" },
    model: "test-model",
};

export const roots = { roots: [{ uri: "file:///work", name: "Work" }] };

async function tellFeatures(client, call, watch) {
    const read = async (uri) => (await client.readResource({ uri })).contents[0].text;
    const get = async (name, args = {}) =>
        (await client.getPrompt({ name, arguments: args })).messages[0].content.text;
    const missing = await read("test://missing").catch((error) => error);
    const ref = { type: "ref/prompt", name: "test_prompt_with_arguments" };
    const argument = { name: "arg1", value: "par" };
    const own = (uris) => uris.filter((uri) => uri.startsWith("test://"));
    const templates = (await client.listResourceTemplates()).resourceTemplates;
    const told = {
        resources: own((await client.listResources()).resources.map((resource) => resource.uri)),
        templates: own(templates.map((each) => each.uriTemplate)),
        read: await read("test://static-text"),
        instance: await read("test://template/1%202/data"),
        missing: missing.code,
        prompts: (await client.listPrompts()).prompts.length,
        prompt: await get("test_prompt_with_arguments", { arg1: "a", arg2: "b" }),
        asked: await get("test_input_required_result_prompt"),
        completed: (await client.complete({ ref, argument })).completion.values,
    };
    let heard;
    const updated = new Promise((resolve) => (heard = resolve));
    await watch("test://watched-resource", heard);
    await call("test_trigger_resource_update", {});
    told.updated = await updated;
    return told;
}

export async function tell(client, call, nextChange, watch) {
    const text = async (name, args = {}) => (await call(name, args)).content[0].text;
    const before = (await client.listTools()).tools;
    const progress = [];
    await call("test_tool_with_progress", {}, { onprogress: (step) => progress.push(step.progress) });
    const failed = await call("test_error_handling", {});
    const unknown = await call("no_such_tool", {}).catch((error) => error);
    const story = {
        server: client.getServerVersion().name,
        instructions: client.getInstructions(),
        tools: before.length,
        text: await text("test_simple_text"),
        progress,
        greeting: await text("test_input_required_result_elicitation"),
        rounds: await text("test_input_required_result_multi_round"),
        sampled: await text("test_sampling", { prompt: "Say something" }),
        folders: await text("test_input_required_result_list_roots"),
        mirrored: await text("mirrored_argument", { region: "Zürich" }),
        failed: failed.isError,
        unknown: unknown.code,
    };
    const change = nextChange();
    await call("test_trigger_tool_change", {});
    await change;
    story.appeared = (await client.listTools()).tools.length - before.length;
    await call("test_trigger_tool_change", {});
    return { ...story, ...(await tellFeatures(client, call, watch)) };
}

export async function run(connect) {
    const [transport, era, ...target] = process.argv.slice(2);
    console.log(JSON.stringify(await connect(transport, era, target)));
}
