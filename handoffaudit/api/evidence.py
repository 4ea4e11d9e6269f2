"""API of evidence bundles: a signed ZIP file about a handoff, a trace or a period."""

from django.conf import settings
from django.http import HttpRequest, StreamingHttpResponse
from django.http.response import HttpResponseBase
from ninja import Query, Router
from pydantic import Field

from handoffaudit.accounts.models import Scope
from handoffaudit.api.auth import KeyWith, caller
from handoffaudit.api.errors import Problem
from handoffaudit.api.reports import WindowQuery
from handoffaudit.api.requests import check_names
from handoffaudit.api.schemas import ProblemOut
from handoffaudit.filter_fields import FilterError
from handoffaudit.trust import bundle, signatures

router = Router(tags=["Evidence"])

ZIP = "application/zip"


class EvidenceQuery(WindowQuery):
    handoff: str = Field("", description="A handoff, by the server's UUID or the sender's id, with its other attempts.")
    trace: str = Field("", description="A trace, by the sender's id.")


@router.get(
    "/evidence",
    auth=KeyWith(Scope.READ),
    operation_id="get_evidence",
    summary="Get a signed evidence bundle about a handoff, a trace or a period",
    response={400: ProblemOut, 404: ProblemOut, 413: ProblemOut},
    openapi_extra={
        "responses": {
            200: {"description": "A ZIP file", "content": {ZIP: {"schema": {"type": "string", "format": "binary"}}}}
        }
    },
)
def get_evidence(request: HttpRequest, query: Query[EvidenceQuery]) -> HttpResponseBase:
    """Return documents, verdicts, policies, decisions and seals as one signed ZIP file.

    The bundle has up to 1,000 handoffs. Entries of the audit log are included for keys with the scope `admin`. Check
    the file with `handoffaudit verify-bundle`: a file that was cut off has no signature.
    """
    check_names(request, EvidenceQuery)
    if query.handoff and query.trace:
        raise FilterError("trace", query.trace[:40], "give handoff or trace, not both.")
    who = caller(request)
    try:
        subject = bundle.find_subject(who.tenant, query.model_dump())
        key = signatures.load_key(settings.DATA_FOLDER)
        with_audit = Scope.ADMIN in who.key.scopes
        parts = bundle.Download(bundle.build(subject, key, by=f"key {who.key.name}", with_audit=with_audit))
    except bundle.NothingFound as error:
        raise Problem(404, "Not found", str(error)) from error
    except bundle.TooLarge as error:
        raise Problem(413, "Bundle too large", str(error), limit=bundle.MOST_HANDOFFS) from error
    except (bundle.Busy, signatures.WrongKey) as error:
        raise Problem(503, "No bundle now", str(error), headers={"Retry-After": "60"}) from error
    name = bundle.file_name(subject)
    return StreamingHttpResponse(
        parts, content_type=ZIP, headers={"Content-Disposition": f'attachment; filename="{name}"'}
    )
