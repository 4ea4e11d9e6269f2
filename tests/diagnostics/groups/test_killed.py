"""Tests of a process that is killed while it groups findings: the next process gets the numbers right."""

import signal
import subprocess
import sys

import pytest
from django.db import connection

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics import attribution
from handoffaudit.diagnostics.models import FindingGroup, GroupedHandoff, TracedHandoff, Watermark
from tests.diagnostics.groups.support import assert_groups_are_right, found, group
from tests.handoffs.support import circular, judged

pytestmark = pytest.mark.django_db(transaction=True)

# The process stops in the middle of its transaction: members are written, numbers are not.
HALF_DONE = """
import sys, time
import django
from django.conf import settings
settings.DATABASES["default"]["NAME"] = sys.argv[1]
django.setup()
from handoffaudit.diagnostics import attribution, group_store

def stands_still(*given, **more):
    print("in the middle", flush=True)
    time.sleep(600)

group_store._resize = stands_still
attribution.run()
"""


@pytest.mark.parametrize("upgrade", [False, True], ids=["newly judged", "older ones"])
def test_a_kill_in_the_middle_counts_nothing_twice_and_loses_nothing(tenant: Tenant, *, upgrade: bool) -> None:
    found(tenant, 2)
    if upgrade:
        GroupedHandoff.objects.all().delete()
        FindingGroup.objects.all().delete()
        TracedHandoff.objects.update(grouped=False)
    else:
        judged(tenant, circular())
    database = str(connection.settings_dict["NAME"])
    with subprocess.Popen([sys.executable, "-c", HALF_DONE, database], stdout=subprocess.PIPE, text=True) as half_done:
        assert half_done.stdout is not None
        assert half_done.stdout.readline().strip() == "in the middle"
        half_done.send_signal(signal.SIGKILL)
    # The lease of the killed process expires after two minutes.
    Watermark.objects.filter(name=attribution.LEASE.name).delete()
    assert attribution.run() >= 1
    assert group(tenant).number == (2 if upgrade else 3)
    assert_groups_are_right()
