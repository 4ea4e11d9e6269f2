"""Loader of the sample's handoff files and logs, which `up --sample` runs as a process after its handoffs."""

from handoffaudit.cli.bootstrap import find_tenant, start_with_database


def fill_samples() -> None:
    start_with_database()
    from handoffaudit.accounts import tenants
    from handoffaudit.diagnostics import sample_tenants

    sample_tenants.fill_beside(find_tenant(tenants.DEFAULT))


if __name__ == "__main__":
    fill_samples()
