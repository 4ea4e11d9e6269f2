"""The gallery: every component, drawing and token from the templates and sheets that the pages use."""

from handoffaudit.dashboard.gallery.page import urlpatterns as urlpatterns
