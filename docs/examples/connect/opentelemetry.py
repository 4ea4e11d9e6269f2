from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)

# Here, the instrumentation of your framework would write these spans.
tracer = trace.get_tracer("example")
researcher = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "researcher"}
reviewer = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "reviewer"}
tool = {
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": "transfer_to_reviewer",
    "gen_ai.tool.call.arguments": '{"summary": "Three suppliers deliver within a week."}',
}
with tracer.start_as_current_span("run"):
    with (
        tracer.start_as_current_span("invoke_agent researcher", attributes=researcher),
        tracer.start_as_current_span("execute_tool transfer_to_reviewer", attributes=tool),
    ):
        pass
    with tracer.start_as_current_span("invoke_agent reviewer", attributes=reviewer):
        pass

provider.shutdown()
