"""The list of handoffs, and the box that finds one."""

from handoffaudit.dashboard.handoffs import finding, page

urlpatterns = [*page.urlpatterns, *finding.urlpatterns]
