from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore
from handoffaudit_client.a2a import GatedExecutor
from starlette.applications import Starlette

# `WriterExecutor` and `card` are the executor and the card of your agent.
executor = GatedExecutor(WriterExecutor(), target="writer")
handler = DefaultRequestHandler(executor, InMemoryTaskStore(), card)
app = Starlette(routes=[*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/")])
