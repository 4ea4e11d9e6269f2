"""The API, put together."""

from handoffaudit.api import (
    agents,
    declared,
    diagnostics,
    groups,
    hooks,
    judging,
    problems,
    prompts,
    published,
    retention,
    review_queue,
    reviewing,
    rules,
    schemas_by_type,
    strictness,
    webhooks,
)
from handoffaudit.api.openapi import DescribedAPI
from handoffaudit.api.reading_requests import StrictParser

api = DescribedAPI(
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
    # Handoffs are submitted, read and reviewed on one router.
    reviewing.router,
    review_queue.router,
    judging.router,
    hooks.router,
    strictness.router,
    rules.router,
    schemas_by_type.router,
    prompts.router,
    groups.router,
    agents.router,
    declared.router,
    diagnostics.router,
    retention.router,
    webhooks.router,
    published.router,
):
    api.add_router("", router)
