"""The pages of people and API keys. A secret is shown once, on the page after the form that created it."""

import secrets
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.shortcuts import redirect, render
from django.urls import path, reverse
from django.utils import timezone
from django.utils.dateparse import parse_date
from django.views.decorators.http import require_POST, require_safe

from handoffaudit.accounts import Refused, keys, people
from handoffaudit.accounts.keys import LONGEST_PATTERN, MOST_PATTERNS
from handoffaudit.accounts.models import RIGHTS, Key, Person, Role, Scope
from handoffaudit.accounts.people import Invitation
from handoffaudit.dashboard.access import TenantMembership, require_role
from handoffaudit.dashboard.connect_ways import WAYS
from handoffaudit.validation.tool_results import Grade

SECONDS = 300


def redirect_with_secret(
    address: str, request: HttpRequest, who: TenantMembership, what: str, secret: str, about: str = ""
) -> HttpResponse:
    """Redirect to `address`, whose view calls `take_secret`; `about` says what the secret belongs to."""
    raw = secret.encode()
    pad = secrets.token_bytes(len(raw))
    request.session[_name(who, what)] = [about, _xor(raw, pad).hex()]
    answer = HttpResponseRedirect(address)
    answer.set_cookie(
        _name(who, what),
        pad.hex(),
        max_age=SECONDS,
        path=urlsplit(address).path,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Strict",
    )
    return answer


def take_secret(request: HttpRequest, who: TenantMembership, what: str) -> tuple[str, str]:
    """Remove the secret from the session, and return what it belongs to (`about`) and the secret.

    Return two empty strings if there is no secret to show, or if the request is not a GET.
    """
    if request.method != "GET":
        return "", ""
    about, half = request.session.pop(_name(who, what), ("", ""))
    pad = request.COOKIES.get(_name(who, what), "")
    try:
        return about, _xor(bytes.fromhex(half), bytes.fromhex(pad)).decode()
    except ValueError:
        return "", ""


def _xor(one: bytes, other: bytes) -> bytes:
    """Combine two byte strings with XOR; raise ValueError if their lengths differ."""
    return bytes(a ^ b for a, b in zip(one, other, strict=True))


def _name(who: TenantMembership, what: str) -> str:
    return f"once-{who.tenant.slug}-{what}"


MEANING = {
    Scope.INGEST: "submit handoffs, OpenTelemetry traces, logs and reports of handoff files; send tool results, which "
    "are not evidence; judge and repair documents without storing them; ask the gate",
    Scope.OBSERVE: "send what tools returned, captured by the host, as evidence",
    Scope.READ: "read handoffs, verdicts, traces, finding groups, logs, alerts, reports, LLM health, and all policies "
    "but alert rules and retention; get evidence bundles; test policies",
    Scope.REVIEW: "approve, decline, assign and comment, repair stored handoffs, mute finding groups, keep cases",
    Scope.ADMIN: "change strictness, rules, schemas, prompts, declared routes, roles of agents, the policy "
    "for handoff files, webhooks, and retention, which deletes data; place legal holds and erase values; "
    "read and save all policies as one set, which includes alert rules",
}


SEAMS = {
    Grade.IN_PROCESS: "a client or plug-in in the sender's process captures them",
    Grade.OUTSIDE: "a proxy or collector, which the sender does not control, captures them",
}


@dataclass(slots=True)
class KeyForm:
    """The form of a new key; `errors` holds messages by field."""

    name: str = ""
    scopes: list[str] = field(default_factory=lambda: [Scope.INGEST.value, Scope.READ.value])
    expires: str = ""
    seam: str = Grade.IN_PROCESS.value
    agents: str = ""
    errors: dict[str, str] = field(default_factory=dict)

    @property
    def choices(self) -> list[tuple[str, str, bool]]:
        return [(scope.value, meaning, scope.value in self.scopes) for scope, meaning in MEANING.items()]

    @property
    def seams(self) -> list[tuple[str, str, bool]]:
        return [(seam.value, meaning, seam.value == self.seam) for seam, meaning in SEAMS.items()]

    @property
    def earliest(self) -> str:
        return (timezone.now().date() + timedelta(days=1)).isoformat()

    def expires_at(self) -> datetime | None:
        """Return the end of the chosen day in UTC, or None; raise `Refused` for a text that is not a date."""
        if not self.expires:
            return None
        try:
            day = parse_date(self.expires)
        except ValueError:
            day = None
        if day is None:
            raise Refused(f"{self.expires!r} is not a date: write it as 2027-12-31, or leave it empty.", "expires_at")
        return datetime.combine(day, time(23, 59, 59), UTC)


@dataclass(frozen=True, slots=True)
class Binding:
    """A refused change of a key's agents: the entered agents, one per line, and the reason."""

    key: int
    agents: str
    error: str


@require_role(Role.ADMIN)
@require_safe
def keys_page(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    about, secret = take_secret(request, who, "key")
    key = Key.objects.filter(tenant=who.tenant, pk=int(about)).first() if secret else None
    made = {"key": key, "secret": secret, "ways": WAYS if Scope.INGEST in key.scopes else ()} if key else None
    return _keys(request, who, KeyForm(), made=made)


@require_role(Role.ADMIN)
@require_POST
def create(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    form = _form(request.POST)
    try:
        key, secret = keys.create(
            tenant=who.tenant,
            name=form.name,
            scopes=form.scopes,
            expires_at=form.expires_at(),
            actor=who.person.username,
            seam=form.seam if Scope.OBSERVE in form.scopes else "",
            agents=form.agents.splitlines(),
        )
    except Refused as refused:
        form.errors[refused.field] = refused.message
        return _keys(request, who, form, status=400)
    address = reverse("dashboard:settings_keys", args=[who.tenant.slug])
    return redirect_with_secret(address, request, who, "key", secret, str(key.pk))


@require_role(Role.ADMIN)
@require_POST
def revoke(request: HttpRequest, who: TenantMembership, key: int) -> HttpResponse:
    try:
        revoked = keys.revoke(tenant=who.tenant, key_id=key, actor=who.person.username)
    except Refused as refused:
        raise Http404(refused.message) from refused
    messages.success(request, f"{revoked.name} is revoked. The key stops working within seconds.")
    return redirect("dashboard:settings_keys", tenant=who.tenant.slug)


@require_role(Role.ADMIN)
@require_POST
def bind(request: HttpRequest, who: TenantMembership, key: int) -> HttpResponse:
    """Set the agents that a key may speak for."""
    given = request.POST.get("agents", "")
    try:
        bound = keys.bind(tenant=who.tenant, key_id=key, agents=given.splitlines(), actor=who.person.username)
    except Refused as refused:
        if not refused.field:
            raise Http404(refused.message) from refused
        return _keys(request, who, KeyForm(), binding=Binding(key, given, refused.message), status=400)
    messages.success(request, f"{bound.name} speaks for {', '.join(bound.agents) or 'any agent'} from now on.")
    return redirect("dashboard:settings_keys", tenant=who.tenant.slug)


def _form(given: QueryDict) -> KeyForm:
    name, expires = given.get("name", "").strip(), given.get("expires", "").strip()
    seam = given.get("seam", Grade.IN_PROCESS.value)
    return KeyForm(name, given.getlist("scopes"), expires, seam, given.get("agents", ""))


def _keys(
    request: HttpRequest,
    who: TenantMembership,
    form: KeyForm,
    *,
    made: dict[str, Any] | None = None,
    binding: Binding | None = None,
    status: int = 200,
) -> HttpResponse:
    context: dict[str, Any] = {
        "tab": "settings_keys",
        "keys": keys.list_newest(who.tenant),
        "now": timezone.now(),
        "form": form,
        "made": made,
        "binding": binding,
        "limits": {"patterns": MOST_PATTERNS, "length": LONGEST_PATTERN},
    }
    return render(request, "dashboard/settings/keys.html", context, status=status)


key_urls = [
    path("settings/keys/", keys_page, name="settings_keys"),
    path("settings/keys/create/", create, name="settings_key_create"),
    path("settings/keys/<int:key>/agents/", bind, name="settings_key_bind"),
    path("settings/keys/<int:key>/revoke/", revoke, name="settings_key_revoke"),
]


@require_role(Role.ADMIN)
@require_safe
def people_page(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    about, link = take_secret(request, who, "link")
    invitation = Invitation(_person(who, int(about)), link) if link else None
    return _people(request, who, invitation=invitation)


@require_role(Role.ADMIN)
@require_POST
def invite(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    name, role = request.POST.get("name", ""), _role(request)
    try:
        invitation = people.invite(tenant=who.tenant, name=name, role=role, actor=who.person.username)
    except Refused as refused:
        given = {"name": name, "role": role, "error": refused.message}
        return _people(request, who, given=given, status=400)
    if not invitation.path:
        messages.success(request, f"{invitation.person.username} can sign in with {settings.OIDC_NAME} again.")
        return _back(who)
    return _show(request, who, invitation)


@require_role(Role.ADMIN)
@require_POST
def new_link(request: HttpRequest, who: TenantMembership, person: int) -> HttpResponse:
    try:
        invitation = people.new_link(tenant=who.tenant, person=_person(who, person), actor=who.person.username)
    except Refused as refused:
        return _render_refusal(request, who, refused)
    return _show(request, who, invitation)


def _show(request: HttpRequest, who: TenantMembership, invitation: Invitation) -> HttpResponse:
    address = reverse("dashboard:settings", args=[who.tenant.slug])
    return redirect_with_secret(address, request, who, "link", invitation.path, str(invitation.person.pk))


@require_role(Role.ADMIN)
@require_POST
def set_role(request: HttpRequest, who: TenantMembership, person: int) -> HttpResponse:
    role = _role(request)
    try:
        changed = people.set_role(tenant=who.tenant, person=_person(who, person), role=role, actor=who.person.username)
    except Refused as refused:
        return _render_refusal(request, who, refused)
    messages.success(request, f"{changed.person.username} is {role.value} now.")
    return redirect("home") if changed.person_id == who.person.pk else _back(who)


@require_role(Role.ADMIN)
@require_POST
def reset_factors(request: HttpRequest, who: TenantMembership, person: int) -> HttpResponse:
    member = _person(who, person)
    try:
        people.reset_factors(tenant=who.tenant, person=member, actor=who.person.username)
    except Refused as refused:
        return _render_refusal(request, who, refused)
    messages.success(request, f"{member.username} signs in without a second factor until a new one is set up.")
    return _back(who)


@require_role(Role.ADMIN)
@require_POST
def remove(request: HttpRequest, who: TenantMembership, person: int) -> HttpResponse:
    removed = _person(who, person)
    try:
        people.remove(tenant=who.tenant, person=removed, actor=who.person.username)
    except Refused as refused:
        return _render_refusal(request, who, refused)
    messages.success(request, f"{removed.username} is no longer in {who.tenant.name}.")
    return redirect("home") if removed.pk == who.person.pk else _back(who)


def _people(
    request: HttpRequest,
    who: TenantMembership,
    *,
    invitation: Invitation | None = None,
    given: dict[str, Any] | None = None,
    status: int = 200,
) -> HttpResponse:
    link = request.build_absolute_uri(invitation.path) if invitation else ""
    if invitation and settings.PUBLIC_URL:
        link = settings.PUBLIC_URL + invitation.path
    context: dict[str, Any] = {
        "tab": "settings",
        "members": people.members(who.tenant),
        "protected": people.find_protected(who.tenant),
        "passwords": settings.PASSWORD_SIGN_IN,
        "oidc": settings.OIDC_NAME,
        "rights": [(role.value, rights) for role, rights in RIGHTS.items()],
        "invitation": invitation,
        "link": link,
        "given": given or {"role": Role.VIEWER},
        "name_rule": people.NAME_RULE,
        "days": settings.PASSWORD_RESET_TIMEOUT // 86_400,
    }
    return render(request, "dashboard/settings/people.html", context, status=status)


def _render_refusal(request: HttpRequest, who: TenantMembership, refused: Refused) -> HttpResponse:
    messages.error(request, refused.message)
    return _people(request, who, status=409)


def _back(who: TenantMembership) -> HttpResponse:
    return redirect("dashboard:settings", tenant=who.tenant.slug)


def _person(who: TenantMembership, pk: int) -> Person:
    """Return a person of this tenant; raise Http404 for anybody else."""
    person = Person.objects.filter(pk=pk, membership__tenant=who.tenant).first()
    if person is None:
        raise Http404("There is no such person in this tenant.")
    return person


def _role(request: HttpRequest) -> Role:
    try:
        return Role(request.POST.get("role", ""))
    except ValueError as error:
        raise Http404("There is no such role.") from error


people_urls = [
    path("settings/", people_page, name="settings"),
    path("settings/people/invite/", invite, name="settings_invite"),
    path("settings/people/<int:person>/link/", new_link, name="settings_link"),
    path("settings/people/<int:person>/role/", set_role, name="settings_role"),
    path("settings/people/<int:person>/factors/", reset_factors, name="settings_reset_factors"),
    path("settings/people/<int:person>/remove/", remove, name="settings_remove"),
]
