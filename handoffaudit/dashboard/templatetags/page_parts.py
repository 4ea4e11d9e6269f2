"""Template tags for parts of pages that need more than a value: forms of filters, tabs, the decision box, mutes."""

from collections.abc import Iterable, Mapping
from typing import Any

from django import forms
from django.forms.utils import flatatt
from django.template import Context, Library
from django.template.context import RequestContext
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from handoffaudit.accounts.models import Tenant
from handoffaudit.dashboard.navigation import TABS
from handoffaudit.dashboard.review.item import Box, box_of
from handoffaudit.dashboard.templatetags.ui import option, options
from handoffaudit.dashboard.view_tabs import build_url
from handoffaudit.diagnostics import sample_tenants
from handoffaudit.diagnostics.group_members import group_among, groups_by_key
from handoffaudit.diagnostics.group_store import MOST_CODE_MUTES, MUTE_DAYS, USUAL_MUTE_DAYS
from handoffaudit.diagnostics.models import CodeMute, RetentionRun
from handoffaudit.diagnostics.sample_tenants import Progress
from handoffaudit.filter_fields import ChoiceFilter, FilterField
from handoffaudit.handoffs.llm import client
from handoffaudit.handoffs.models import Handoff
from handoffaudit.policy.retention import KIND_TEXTS, Data

register = Library()


@register.inclusion_tag("components/filter_fields.html")
def filter_fields(form: forms.Form, names: str) -> dict[str, Any]:
    """Render the controls of filters: `{% filter_fields form "type source" %}`."""
    return {"controls": _controls(form, names.split())}


@register.inclusion_tag("components/filter_fields.html#more_filters")
def more_filters(form: forms.Form, besides: str) -> dict[str, Any]:
    """Render the filters that have a label and are not in `besides`, folded away unless one of them is active."""
    names = [name for name, field in form.fields.items() if field.label and name not in besides.split()]
    controls = _controls(form, names)
    return {"controls": controls, "is_open": any(control["value"] for control in controls)}


def _controls(form: forms.Form, names: Iterable[str]) -> list[dict[str, Any]]:
    controls: list[dict[str, Any]] = []
    lists: dict[int, str] = {}
    for name in names:
        bound = form[name]
        declared: FilterField = bound.field  # type: ignore[assignment]
        kind, value = declared.widget.input_type, bound.value() or ""
        is_select, is_shared = kind == "select", id(declared.options) in lists
        controls.append(
            {
                "id": bound.auto_id,
                "name": name,
                "label": declared.label,
                "value": value,
                "kind": kind,
                "attributes": flatatt(declared.widget.attrs),
                "options": _options(declared, name, value if is_select else "") if is_select or not is_shared else "",
                # Fields with the same suggestions share a list.
                "list": lists.setdefault(id(declared.options), name) if declared.options and not is_select else "",
                "empty_label": declared.empty_label,
            }
        )
    return controls


def _options(declared: FilterField, name: str, chosen: str) -> SafeString:
    if not isinstance(declared.options, Mapping):
        return options(declared.options, chosen, "codes" if name == "code" else "")
    is_free = chosen and not isinstance(declared, ChoiceFilter) and not _has_option(declared.options, chosen)
    more = option(chosen, chosen, is_chosen=True) if is_free else SafeString()
    return _render(declared.options, chosen) + more


def _render(offered: Mapping[str, Any], chosen: str) -> SafeString:
    parts = (
        option(value, label, is_chosen=value == chosen)
        if isinstance(label, str)
        else format_html('<optgroup label="{}">{}</optgroup>', value, _render(label, chosen))
        for value, label in offered.items()
    )
    return mark_safe("".join(parts))  # noqa: S308 -- each part is escaped


def _has_option(offered: Mapping[str, Any], chosen: str) -> bool:
    if isinstance(offered.get(chosen), str):
        return True
    return any(chosen in group for group in offered.values() if not isinstance(group, str))


@register.inclusion_tag("components/tabs.html", takes_context=True)
def tabs(context: Context, group: str, current: str) -> dict[str, Any]:
    """Render the tabs of a menu page: `{% tabs "settings" "settings_keys" %}`. The second argument names the open tab.

    If several tabs have the same name, `show` in the context says which of them is open.
    """
    who = context["who"]
    allowed = [tab for tab in TABS[group] if who.may(tab.least)]
    shown = [
        (
            tab.label,
            build_url(reverse(f"dashboard:{tab.name}", args=[who.tenant.slug]), tab.show and f"show={tab.show}"),
        )
        for tab in allowed
    ]
    opened = next((tab.label for tab in allowed if (tab.name, tab.show) == (current, context.get("show", ""))), "")
    return {"tabs": shown, "label": group.capitalize(), "current": opened}


@register.simple_tag(takes_context=True)
def box(context: dict[str, Any], handoff: Handoff) -> Box:
    """Return the decision box of a handoff for `components/review_box.html`: `{% box handoff as box %}`."""
    return box_of(context["who"], handoff)


@register.inclusion_tag("dashboard/groups/link.html", takes_context=True)
def group_link(context: Context, handoff: Handoff, code: str, path: str | None) -> dict[str, Any]:
    """Link to the finding group of a finding, with the number of its handoffs; render nothing if there is no group.

    Usage: `{% group_link handoff issue.code issue.field_path %}`. The groups of a handoff are loaded once
    for all of its findings.
    """
    # The groups are cached on the instance, as Django caches related objects.
    if "_finding_groups" not in vars(handoff):
        vars(handoff)["_finding_groups"] = groups_by_key(handoff)
    groups = vars(handoff)["_finding_groups"]
    return {"group": group_among(groups, code, path or ""), "who": context["who"]}


@register.inclusion_tag("dashboard/groups/mute_code.html", takes_context=True)
def mute_code(context: RequestContext, code: str) -> dict[str, Any]:
    """Render the form that mutes a rule code in the whole tenant: `{% mute_code issue.code %}`.

    If the rule code is muted, render who muted the code, until when and why, and a button that ends the mute. Only
    reviewers get the form and the button. The muted rule codes of the tenant are loaded once for a page.
    """
    tenant = context["who"].tenant
    if "_code_mutes" not in vars(tenant):
        rows = CodeMute.objects.filter(tenant=tenant)[:MOST_CODE_MUTES]
        vars(tenant)["_code_mutes"] = {one.code: one for one in rows}
    return {
        "code": code,
        "muted": vars(tenant)["_code_mutes"].get(code),
        "days": MUTE_DAYS,
        "usual_days": USUAL_MUTE_DAYS,
        "who": context["who"],
        "may_review": context["may_review"],
        # A refused form is shown under an address that takes only POST, so a redirect to it would fail.
        "next": context["request"].get_full_path() if context["request"].method == "GET" else "",
        "csrf_token": context["csrf_token"],
    }


@register.inclusion_tag("components/removed.html", takes_context=True)
def show_removal(context: RequestContext, name: str) -> dict[str, Any]:
    """Render a note about the last removal of a kind of data by retention; nothing if nothing was removed."""
    data = Data(name)
    return {"run": RetentionRun.last_removal(context["who"].tenant, data), "title": KIND_TEXTS[data].title}


@register.simple_tag
def is_llm_configured() -> bool:
    """Return whether an LLM is configured: `{% is_llm_configured as is_configured %}`."""
    return client.is_configured()


@register.simple_tag
def sample_progress(tenant: Tenant) -> Progress:
    """Return how far a sample tenant is filled: `{% sample_progress who.tenant as filled %}`."""
    return sample_tenants.load_progress(tenant)
