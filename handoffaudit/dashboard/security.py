"""The security of one's own account: passkeys, the authenticator app, recovery codes, and their use at sign-in."""

import time
from typing import Any

from allauth.account.app_settings import REAUTHENTICATION_TIMEOUT
from allauth.account.authentication import get_authentication_records
from allauth.account.forms import ReauthenticateForm
from allauth.account.internal.flows.reauthentication import get_reauthentication_flows
from allauth.account.models import Login
from allauth.account.utils import get_next_redirect_url
from allauth.account.views import ReauthenticateView
from allauth.mfa.adapter import get_adapter
from allauth.mfa.base import forms as code_forms
from allauth.mfa.base import views as code_views
from allauth.mfa.recovery_codes.views import GenerateRecoveryCodesView, ViewRecoveryCodesView
from allauth.mfa.totp.forms import ActivateTOTPForm
from allauth.mfa.totp.views import ActivateTOTPView, DeactivateTOTPView
from allauth.mfa.webauthn import forms as passkey_forms
from allauth.mfa.webauthn import views as passkey_views
from allauth.mfa.webauthn.internal.auth import begin_registration
from allauth.mfa.webauthn.internal.flows import perform_passwordless_login
from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import RequestDataTooBig, ValidationError
from django.http import Http404, HttpRequest
from django.shortcuts import redirect
from django.urls import path, reverse_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters

from handoffaudit.accounts import sign_in
from handoffaudit.accounts.models import Membership, Role
from handoffaudit.dashboard.sign_in import refuse_many

LONGEST_CREDENTIAL = 20_000

# django-allauth keeps a form in the session while the person confirms the password.
LARGEST_FORM = 64 * 1024


class _CodeForm(forms.Form):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"label_suffix": ""} | kwargs)
        attributes = {"autocomplete": "one-time-code", "inputmode": "numeric", "autofocus": True}
        self.fields["code"] = forms.CharField(label="Code", max_length=20, widget=forms.TextInput(attrs=attributes))


class SignInCodeForm(_CodeForm, code_forms.AuthenticateForm):  # type: ignore[misc]
    pass


class ConfirmCodeForm(_CodeForm, code_forms.ReauthenticateForm):  # type: ignore[misc]
    pass


class AppForm(_CodeForm, ActivateTOTPForm):  # type: ignore[misc]
    pass


class ConfirmPasswordForm(ReauthenticateForm):  # type: ignore[misc]
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"label_suffix": ""} | kwargs)
        attributes = {"autocomplete": "current-password", "autofocus": True}
        widget = forms.PasswordInput(attrs=attributes)
        self.fields["password"] = forms.CharField(label="Password", strip=False, max_length=4096, widget=widget)


class CredentialField(forms.JSONField):
    """The answer of a browser about a passkey, as JSON of limited size."""

    widget = forms.HiddenInput

    def to_python(self, value: Any) -> Any:
        try:
            found = super().to_python(value if len(str(value)) <= LONGEST_CREDENTIAL else "")
        except RecursionError:
            found = None
        if not isinstance(found, dict):
            raise get_adapter().validation_error("incorrect_code")
        return found


class _PasskeyForm(forms.Form):
    """A form with a credential. A credential that no browser would send is refused and causes no server error."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"label_suffix": ""} | kwargs)
        self.fields["credential"] = CredentialField()

    def _clean_fields(self) -> None:
        self._refuse_unreadable(super()._clean_fields)  # type: ignore[misc]

    def _clean_form(self) -> None:
        self._refuse_unreadable(super()._clean_form)  # type: ignore[misc]

    def clean(self) -> Any:
        try:
            return super().clean()
        except ValidationError as error:
            self.add_error("credential", error)
            return self.cleaned_data

    def _refuse_unreadable(self, clean: Any) -> None:
        try:
            clean()
        except (AttributeError, KeyError, TypeError, ValueError):
            self.add_error("credential", get_adapter().validation_error("incorrect_code"))


class PasskeySignInForm(_PasskeyForm, passkey_forms.LoginWebAuthnForm):  # type: ignore[misc]
    pass


class PasskeyFactorForm(_PasskeyForm, passkey_forms.AuthenticateWebAuthnForm):  # type: ignore[misc]
    pass


class ConfirmPasskeyForm(_PasskeyForm, passkey_forms.ReauthenticateWebAuthnForm):  # type: ignore[misc]
    pass


class NewPasskeyForm(_PasskeyForm, passkey_forms.AddWebAuthnForm):  # type: ignore[misc]
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["name"] = forms.CharField(label="Name", max_length=100, required=False)


class Security(code_views.IndexView):  # type: ignore[misc]
    def get_context_data(self, **kwargs: Any) -> Any:
        person = self.request.user
        is_admin = Membership.objects.filter(person=person.pk, role=Role.ADMIN).exists()
        missing = is_admin and sign_in.is_missing(self.request, person, Role.ADMIN)
        return super().get_context_data(**kwargs) | {"missing": missing, "passwords": settings.PASSWORD_SIGN_IN}


class SignInCode(code_views.AuthenticateView):  # type: ignore[misc]
    form_class = SignInCodeForm
    webauthn_form_class = PasskeyFactorForm

    def form_invalid(self, form: forms.Form) -> Any:
        response = super().form_invalid(form)
        if any(error.code == "too_many_login_attempts" for one in form.errors.as_data().values() for error in one):
            response.status_code = 429
        return response

    def get_context_data(self, **kwargs: Any) -> Any:
        return super().get_context_data(**kwargs) | {"person": self.stage.login.user}


class PasskeySignIn(passkey_views.LoginWebAuthnView):  # type: ignore[misc]
    form_class = PasskeySignInForm

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        if not settings.PASSWORD_SIGN_IN:
            raise Http404("Sign-in with a passkey is switched off, as sign-in with a password is.")
        return super().dispatch(request, *args, **kwargs)

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        return refuse_many(request) or super().get(request, *args, **kwargs)

    def form_valid(self, form: forms.Form) -> Any:
        passkey = form.cleaned_data["credential"]
        if sign_in.is_provider_only(passkey.user):
            # Refuse the passkey even if the settings no longer name a provider. The provider may have closed this
            # account before, and a closed account must not sign in.
            way = f"Sign in through {settings.OIDC_NAME}" if settings.OIDC_ISSUER else "Ask an administrator for a link"
            messages.error(self.request, f"{way}: your passkey alone does not sign you in.")
            return redirect("account_login")
        login = Login(user=passkey.user, redirect_url=get_next_redirect_url(self.request))
        return perform_passwordless_login(self.request, passkey, login)

    def form_invalid(self, form: forms.Form) -> Any:
        messages.error(self.request, "This passkey is not known here. Sign in in another way.")
        return redirect("account_login")


class NewPasskey(passkey_views.AddWebAuthnView):  # type: ignore[misc]
    form_class = NewPasskeyForm

    def get_context_data(self, **kwargs: Any) -> Any:
        context = super().get_context_data(**kwargs) | {"form": kwargs.get("form") or self.get_form()}
        # A passkey can sign in alone, so it has to ask for a fingerprint, a face or a PIN.
        return context | {"js_data": {"creation_options": begin_registration(self.request.user, passwordless=True)}}


class RemovePasskey(passkey_views.RemoveWebAuthnView):  # type: ignore[misc]
    success_url = reverse_lazy("mfa_index")


class ConfirmPassword(ReauthenticateView):  # type: ignore[misc]
    form_class = ConfirmPasswordForm


class ConfirmCode(code_views.ReauthenticateView):  # type: ignore[misc]
    form_class = ConfirmCodeForm


class ConfirmPasskey(passkey_views.ReauthenticateWebAuthnView):  # type: ignore[misc]
    form_class = ConfirmPasskeyForm

    def get_context_data(self, **kwargs: Any) -> Any:
        alternatives = {"reauthentication_alternatives": self.get_reauthentication_alternatives()}
        return super().get_context_data(**kwargs) | {"form": self.get_form()} | alternatives

    def form_invalid(self, form: forms.Form) -> Any:
        messages.error(self.request, "This passkey is not one of yours. Try again.")
        return redirect(self.passthrough_next_url(self.request.path))


class NewApp(ActivateTOTPView):  # type: ignore[misc]
    form_class = AppForm


def _own(view: Any) -> Any:
    """Return the view function of a view class.

    The function needs a sign-in and accepts only small forms. Its answers are never cached.
    """

    def wrapper(request: HttpRequest, **kwargs: Any) -> Any:
        if int(request.META.get("CONTENT_LENGTH") or 0) > LARGEST_FORM:
            raise RequestDataTooBig(f"A form here has at most {LARGEST_FORM} bytes.")
        return shown(request, **kwargs)

    shown = view.as_view()
    return login_required(never_cache(sensitive_post_parameters()(wrapper)))


def _require_confirmation(view: Any) -> Any:
    """Return a view that changes factors. A person who has nothing to confirm with needs a recent sign-in.

    Without this check, django-allauth lets people with neither a password nor a factor make changes without a
    confirmation.
    """

    def wrapper(request: HttpRequest, **kwargs: Any) -> Any:
        person = request.user
        if person.is_authenticated and not get_reauthentication_flows(person):
            signed_in = max((one["at"] for one in get_authentication_records(request, person)), default=0)
            if time.time() - signed_in >= REAUTHENTICATION_TIMEOUT:
                messages.error(request, "Sign out, sign in again, and make the change within five minutes.")
                return redirect("mfa_index")
        return shown(request, **kwargs)

    shown = _own(view)
    return wrapper


urlpatterns = [
    path("sign-in/code/", sensitive_post_parameters()(SignInCode.as_view()), name="mfa_authenticate"),
    path("sign-in/passkey/", never_cache(PasskeySignIn.as_view()), name="mfa_login_webauthn"),
    path("security/", _own(Security), name="mfa_index"),
    path("security/app/", _require_confirmation(NewApp), name="mfa_activate_totp"),
    path("security/app/remove/", _require_confirmation(DeactivateTOTPView), name="mfa_deactivate_totp"),
    path("security/codes/", _require_confirmation(ViewRecoveryCodesView), name="mfa_view_recovery_codes"),
    path("security/codes/new/", _require_confirmation(GenerateRecoveryCodesView), name="mfa_generate_recovery_codes"),
    path("security/passkeys/add/", _require_confirmation(NewPasskey), name="mfa_add_webauthn"),
    path("security/passkeys/<int:pk>/remove/", _require_confirmation(RemovePasskey), name="mfa_remove_webauthn"),
    path("security/confirm/", _own(ConfirmPassword), name="account_reauthenticate"),
    path("security/confirm/code/", _own(ConfirmCode), name="mfa_reauthenticate"),
    path("security/confirm/passkey/", _own(ConfirmPasskey), name="mfa_reauthenticate_webauthn"),
]
