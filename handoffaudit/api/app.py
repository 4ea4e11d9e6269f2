"""The API, put together."""

from ninja import NinjaAPI

from handoffaudit.api import handoffs, judging, problems, published, rules, schemas_by_type, strictness
from handoffaudit.api.reading_requests import StrictParser

api = NinjaAPI(
    title="handoffaudit",
    version="1",
    urls_namespace="api",
    docs_url="/docs",
    parser=StrictParser(),
    description=(
        "Submit handoffs between agents, read what was found, decide what waits. Every error is a problem document "
        "(RFC 9457). Lists answer `items` and `next`, and take `cursor` and `limit`."
    ),
)
problems.install(api)
for router in (
    handoffs.router,
    judging.router,
    strictness.router,
    rules.router,
    schemas_by_type.router,
    published.router,
):
    api.add_router("", router)
