"""The pages of findings: groups of those alike, one of them in whole, and what people say of it."""

from handoffaudit.dashboard.groups import acting, group, page

urlpatterns = [*page.urlpatterns, *group.urlpatterns, *acting.urlpatterns]
