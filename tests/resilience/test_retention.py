"""Tests of a worker that is killed while it deletes old data: another continues, and each row counts once."""

import pytest

from tests.resilience.conftest import BOTH
from tests.resilience.processes import Installation, eventually, kill

NUMBER = 12_000
# Calls to the model of long ago, and a rule that is carried out at once.
OLD = """
import uuid
from datetime import timedelta
from django.utils import timezone
from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs.filters import first_id_at
from handoffaudit.handoffs.models import ModelCall
from handoffaudit.policy.kinds import retention
from handoffaudit.policy.models import PolicyVersion
from handoffaudit.policy.retention import Data, Retention
tenant = Tenant.objects.get(slug="acme")
long_ago = timezone.now() - timedelta(days=60)
first = first_id_at(long_ago).int
rows = [
    ModelCall(id=uuid.UUID(int=first + n), tenant=tenant, at=long_ago, use="check", model="m", prompt="p", outcome="ok")
    for n in range({number})
]
ModelCall.objects.bulk_create(rows, batch_size=500)
table = retention.current(tenant)
retention.save(
    tenant=tenant, base_version=table.version, rows=[Retention(Data.MODEL_CALLS, 30)], actor="tests"
)
PolicyVersion.objects.update(changed_at=timezone.now() - timedelta(hours=2))
"""


def left(installation: Installation) -> int:
    ((number,),) = installation.query("SELECT count(*) FROM handoffs_modelcall")
    return int(number)


@pytest.mark.nightly
@BOTH
def test_a_killed_run_goes_on_in_another_worker_and_counts_each_once(installation: Installation) -> None:
    installation.run(OLD.replace("{number}", str(NUMBER)))
    first = installation.worker()
    eventually(lambda: left(installation) < NUMBER, what=installation.log())
    kill(first)
    at_the_kill = left(installation)
    assert 0 < at_the_kill < NUMBER
    # Its lease expires after two minutes.
    installation.run(
        "from handoffaudit.diagnostics.models import Watermark\n"
        "Watermark.objects.filter(name='retention.claim').delete()"
    )
    installation.worker()
    installation.worker()
    eventually(lambda: left(installation) == 0, what=installation.log())
    done = "SELECT number, removed FROM diagnostics_retentionrun WHERE kind = 'model_calls' AND finished_at IS NOT NULL"
    eventually(lambda: installation.query(done), what=installation.log())
    assert installation.query(done) == [(NUMBER, NUMBER)]
    told = "SELECT count(*) FROM accounts_auditentry WHERE action = 'retention.remove'"
    assert installation.query(told) == [(1,)]
