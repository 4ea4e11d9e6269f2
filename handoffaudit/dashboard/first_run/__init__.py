"""The first steps with an empty product, and sample data to look around in."""

from handoffaudit.dashboard.first_run import page, samples

urlpatterns = [*page.urlpatterns, *samples.urlpatterns]
