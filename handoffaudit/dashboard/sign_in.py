"""Signing in and out, the one-time link of a first sign-in, passwords, and the redirect to the first tenant."""

from collections.abc import Iterator
from typing import Any

from allauth.account.adapter import get_adapter
from allauth.account.forms import LoginForm
from allauth.account.views import LoginView, LogoutView
from django import forms
from django.contrib import messages
from django.contrib.auth import login, update_session_auth_hash
from django.contrib.auth.decorators import login_required
from django.contrib.auth.password_validation import (
    CommonPasswordValidator,
    MinimumLengthValidator,
    NumericPasswordValidator,
    UserAttributeSimilarityValidator,
    get_default_password_validators,
)
from django.core.exceptions import NON_FIELD_ERRORS, ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import path
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from handoffaudit.accounts import Refused, people
from handoffaudit.accounts.models import Membership, Person


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

    def form_invalid(self, form: SignInForm) -> HttpResponse:
        locked = form.has_error(NON_FIELD_ERRORS, "locked")
        return render(self.request, self.template_name, self.get_context_data(form=form), status=429 if locked else 200)


class SignOut(LogoutView):  # type: ignore[misc]
    template_name = "account/sign_out.html"
    http_method_names = ["get", "post"]


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
            self.fields["name"] = forms.CharField(label="Name", max_length=150, widget=name)
            self.order_fields(["name"])


class ChangePasswordForm(NewPasswordForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["current"] = _password("Current password", "current-password")
        self.order_fields(["current"])


@never_cache
@sensitive_post_parameters()
@require_http_methods(["GET", "HEAD", "POST"])
def welcome(request: HttpRequest, uidb64: str, token: str) -> HttpResponse:
    person = people.find_by_link(uidb64, token)
    if person is None:
        return render(request, "account/dead_link.html", status=410)
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
    assert isinstance(person, Person)  # noqa: S101 - login_required saw to it
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


def _enter(request: HttpRequest, person: Person | None) -> HttpResponse:
    if person is None:
        return render(request, "account/dead_link.html", status=410)
    login(request, person)
    return redirect("home")


def _with_rules(request: HttpRequest, template: str, context: dict[str, Any]) -> HttpResponse:
    return render(request, template, {**context, "rules": list(_rules())})


def _rules() -> Iterator[str]:
    """Yield the requirements of a password before the person types it; Django's own texts are error messages."""
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
