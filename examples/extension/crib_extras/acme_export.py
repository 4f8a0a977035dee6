"""An export format for a fictional provider."""

from toolcrib.catalog.export import Dialect, ProviderExporter, RawCall, result_text


class AcmeExporter(ProviderExporter):
    name = "acme"
    summary = "ACME chat"
    dialect = Dialect()

    def write_tool(self, name, description, schema, strict):
        return {"tool": name, "about": description, "schema": schema}

    def read_call(self, node):
        return RawCall(node["id"], node["tool"], node["input"]) if "tool" in node else None

    def write_result(self, call, result):
        return {"id": call.id, "text": result_text(result)}
