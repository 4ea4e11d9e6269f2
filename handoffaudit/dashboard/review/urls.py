"""The URL patterns of the Review pages."""

from handoffaudit.dashboard.review import bulk, decide, page

urlpatterns = [*page.urlpatterns, *page.live_urls, *bulk.urlpatterns, *decide.urlpatterns]
