"""Sign-in (also through a provider or with a one-time link), sign-out, passwords, and the redirect to a tenant."""

from collections.abc import Iterator
from typing import Any

from allauth.account.adapter import get_adapter
from allauth.account.forms import LoginForm
from allauth.account.internal.flows.login import perform_password_login
from allauth.account.models import Login
from allauth.account.utils import get_next_redirect_url
from allauth.account.views import LoginView, LogoutView
from allauth.core.internal import ratelimit
from allauth.socialaccount.adapter import get_adapter as get_social_adapter
from allauth.socialaccount.helpers import render_authentication_error
from allauth.socialaccount.providers.base import AuthProcess, ProviderException
from allauth.socialaccount.providers.oauth2.views import OAuth2CallbackView
from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import logout, update_session_auth_hash
from django.contrib.auth.decorators import login_required
from django.contrib.auth.password_validation import (
    CommonPasswordValidator,
    MinimumLengthValidator,
    NumericPasswordValidator,
    UserAttributeSimilarityValidator,
    get_default_password_validators,
)
from django.core.exceptions import NON_FIELD_ERRORS, PermissionDenied, ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import path
from django.utils.crypto import get_random_string
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_GET, require_http_methods
from requests import RequestException

from handoffaudit.accounts import Refused, openid, people
from handoffaudit.accounts.models import Membership, Person
from handoffaudit.accounts.single_sign_on import PROVIDER


class SignInForm(LoginForm):  # type: ignore[misc]
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"label_suffix": ""} | kwargs)
        name = {"autocomplete": "username", "autocapitalize": "none", "spellcheck": "false", "autofocus": True}
        self.fields["login"] = forms.CharField(label="Name", max_length=150, widget=forms.TextInput(attrs=name))
        self.fields["password"] = _password("Password", "current-password")
        self.order_fields(["login", "password"])


class SignIn(LoginView):  # type: ignore[misc]
    form_class = SignInForm
    template_name = "account/sign_in.html"

    def post(self, *args: Any, **kwargs: Any) -> Any:
        if not settings.PASSWORD_SIGN_IN:
            raise PermissionDenied(f"Sign-in with a password is switched off. Sign in with {settings.OIDC_NAME}.")
        return super().post(*args, **kwargs)

    def get_context_data(self, **kwargs: Any) -> Any:
        ways = {"passwords": settings.PASSWORD_SIGN_IN, "oidc": settings.OIDC_NAME if settings.OIDC_ISSUER else ""}
        return super().get_context_data(**kwargs) | ways | {"next": get_next_redirect_url(self.request) or ""}

    def form_invalid(self, form: SignInForm) -> HttpResponse:
        locked = form.has_error(NON_FIELD_ERRORS, "locked")
        return render(self.request, self.template_name, self.get_context_data(form=form), status=429 if locked else 200)


class SignOut(LogoutView):  # type: ignore[misc]
    template_name = "account/sign_out.html"
    http_method_names = ["get", "post"]


def refuse_many(request: HttpRequest) -> HttpResponse | None:
    """Return a refusal if one IP address begins too many sign-ins, otherwise None.

    The number is limited because each sign-in creates a session.
    """
    refused: HttpResponse | None = ratelimit.consume_or_429(
        request, app="allauth.account", action="begin_sign_in", limit_get=True
    )
    return refused


@never_cache
@require_GET
def start_oidc(request: HttpRequest) -> Any:
    """Send the person to the OpenID provider.

    The page links here instead of sending a form, because the Content Security Policy (`form-action`) forbids forms
    that lead to another host.
    """
    if not settings.OIDC_ISSUER:
        raise Http404("Sign-in with OpenID Connect is not set up.")
    if request.user.is_authenticated:
        return redirect("home")
    if refused := refuse_many(request):
        return refused
    provider = get_social_adapter(request).get_provider(request, PROVIDER)
    state = get_random_string(32)
    given = {"next_url": get_next_redirect_url(request), "auth_params": {"nonce": openid.nonce_of(state)}}
    try:
        return provider.redirect(request, process=AuthProcess.LOGIN, state_id=state, **given)
    except (RequestException, ProviderException) as error:
        return render_authentication_error(request, provider, exception=error)


@never_cache
@require_GET
def finish_oidc(request: HttpRequest) -> Any:
    """Sign in the person whom the OpenID provider sends back."""
    if not settings.OIDC_ISSUER:
        raise Http404("Sign-in with OpenID Connect is not set up.")
    return OAuth2CallbackView.adapter_view(openid.Client(request, PROVIDER))(request)


class NewPasswordForm(forms.Form):
    """A password, entered twice; `refuse` shows an error of the accounts app at its field."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"label_suffix": ""} | kwargs)
        self.fields["password"] = _password("New password", "new-password")
        self.fields["again"] = _password("New password again", "new-password")

    def clean(self) -> dict[str, Any]:
        if self.cleaned_data.get("password") != self.cleaned_data.get("again") and not self.errors:
            self.add_error("again", "The two passwords differ: type the same password twice.")
        return self.cleaned_data

    def refuse(self, refused: Refused) -> None:
        self.add_error(refused.field if refused.field in self.fields else None, refused.message)


class WelcomeForm(NewPasswordForm):
    def __init__(self, person: Person, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.initial["name"] = person.username
        if person.last_login is None:
            name = forms.TextInput(attrs={"autocomplete": "username", "autocapitalize": "none", "spellcheck": "false"})
            self.fields["name"] = forms.CharField(
                label="Name", max_length=150, help_text=f"{people.NAME_RULE}.", widget=name
            )
            self.order_fields(["name"])


class ChangePasswordForm(NewPasswordForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["current"] = _password("Current password", "current-password")
        self.order_fields(["current"])


@never_cache
@sensitive_post_parameters()
@require_http_methods(["GET", "HEAD", "POST"])
def welcome(request: HttpRequest, uidb64: str, token: str) -> Any:
    person = people.find_by_link(uidb64, token)
    if person is None:
        return render(request, "account/dead_link.html", status=410)
    if not settings.PASSWORD_SIGN_IN:
        if request.method == "POST":
            return _enter(request, people.use_link(uid=uidb64, token=token))
        return render(request, "account/one_time.html", {"person": person})
    form = WelcomeForm(person, request.POST or None)
    if form.is_valid():
        name = form.cleaned_data.get("name", person.username)
        try:
            joined = people.accept(uid=uidb64, token=token, name=name, password=form.cleaned_data["password"])
        except Refused as refused:
            form.refuse(refused)
        else:
            return _enter(request, joined)
    return _with_rules(request, "account/welcome.html", {"form": form, "person": person})


@login_required
@never_cache
@sensitive_post_parameters()
@require_http_methods(["GET", "HEAD", "POST"])
def password(request: HttpRequest) -> HttpResponse:
    person = request.user
    assert isinstance(person, Person)  # noqa: S101 - login_required ensures it
    if not settings.PASSWORD_SIGN_IN:
        raise PermissionDenied("Sign-in with a password is switched off.")
    form = ChangePasswordForm(request.POST or None)
    if form.is_valid() and _knows_password(form, person):
        try:
            people.set_password(person=person, password=form.cleaned_data["password"], detail={})
        except Refused as refused:
            form.refuse(refused)
        else:
            # Changing the password ends the other sessions of this person; this call keeps the current session.
            update_session_auth_hash(request, person)
            messages.success(request, "Your password was changed. Other devices are signed out.")
            return redirect("home")
    return _with_rules(request, "account/password.html", {"form": form, "person": person})


def _knows_password(form: ChangePasswordForm, person: Person) -> bool:
    try:
        known = get_adapter().reauthenticate(person, form.cleaned_data["current"])
    except ValidationError as locked:
        form.add_error(None, locked)
        return False
    if not known:
        form.add_error("current", "This is not your current password.")
    return bool(known)


def _enter(request: HttpRequest, person: Person | None) -> Any:
    if person is None:
        return render(request, "account/dead_link.html", status=410)
    if request.user.is_authenticated:
        # Whoever is signed in here is signed out first: the link may belong to another person.
        logout(request)
    return perform_password_login(request, {"username": person.username}, Login(user=person))


def _with_rules(request: HttpRequest, template: str, context: dict[str, Any]) -> HttpResponse:
    return render(request, template, {**context, "rules": list(_rules())})


def _rules() -> Iterator[str]:
    """Yield the requirements of a password for the list in the form, in short phrases instead of Django's sentences."""
    for validator in get_default_password_validators():
        match validator:
            case MinimumLengthValidator():
                yield f"At least {validator.min_length} characters"
            case NumericPasswordValidator():
                yield "Not only digits"
            case CommonPasswordValidator():
                yield "Not a common password, such as password1"
            case UserAttributeSimilarityValidator():
                yield "Not your name or a similar one"
            case _:
                yield validator.get_help_text()


def _password(label: str, autocomplete: str) -> forms.CharField:
    widget = forms.PasswordInput(attrs={"autocomplete": autocomplete})
    return forms.CharField(label=label, strip=False, max_length=4096, widget=widget)


sign_in_urls = [
    path("sign-in/", SignIn.as_view(), name="account_login"),
    path("sign-in/oidc/", start_oidc, name="oidc_start"),
    path("sign-in/oidc/callback/", finish_oidc, name="oidc_callback"),
    path("sign-out/", SignOut.as_view(), name="account_logout"),
    path(people.ROUTE, welcome, name="welcome"),
    path("password/", password, name="password"),
]


@login_required
def home(request: HttpRequest) -> HttpResponse:
    membership = Membership.objects.select_related("tenant").filter(person=request.user.pk).order_by("pk").first()
    if membership is None:
        return render(request, "dashboard/no_tenant.html", status=403)
    return redirect("dashboard:overview", tenant=membership.tenant.slug)
