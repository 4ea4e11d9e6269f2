"""The pages of agents: who hands to whom, one of them in whole, and who is declared to hand to whom."""

from handoffaudit.dashboard.agents import agent, declared, page

urlpatterns = [*page.urlpatterns, *agent.urlpatterns, *declared.urlpatterns]
