"""Review at speed: the queue, what was found in one handoff of it, and the decision, by keyboard or plain forms."""

from handoffaudit.dashboard.reviewing import bulk, deciding, live, page

urlpatterns = [*page.urlpatterns, *live.urlpatterns, *bulk.urlpatterns, *deciding.urlpatterns]
