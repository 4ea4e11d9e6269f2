"""The root address: on to the first tenant of whoever is signed in."""

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from handoffaudit.accounts.models import Membership


@login_required
def home(request: HttpRequest) -> HttpResponse:
    membership = Membership.objects.select_related("tenant").filter(person=request.user.pk).order_by("pk").first()
    if membership is None:
        return render(request, "dashboard/no_tenant.html", status=403)
    return redirect("dashboard:overview", tenant=membership.tenant.slug)
