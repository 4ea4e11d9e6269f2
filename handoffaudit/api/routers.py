"""The router that submitting and reading share: an address with two methods must stand in one router."""

from ninja import Router

handoffs = Router(tags=["Handoffs"])
