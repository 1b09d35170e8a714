"""Calling the hooks of plugins (registry ``hooks``): one event to many, where one plugin's fault is nobody else's."""

from __future__ import annotations

import logging
from typing import Any

import pluggy

from sgl_core.api.hooks import SglHooks

from .errors import RegistryError, describe
from .registries import Registries

log = logging.getLogger("sgl_core.registry")


class Hooks:
    """The loaded hook plugins of one process. Made once; ``call`` is cheap where nobody listens.

    A plugin that cannot load, or that implements a hook which does not exist or with arguments that it does not have, is left out
    with a warning that names it. A hook that raises is logged with its plugin's name; the others are still called.
    """

    def __init__(self, registries: Registries) -> None:
        self._manager = pluggy.PluginManager("sgl")
        self._manager.add_hookspecs(SglHooks)
        for name in registries.hooks.names():
            try:
                self._manager.register(registries.hooks.load(name), name)
                self._manager.check_pending()
            except RegistryError as error:
                log.warning("%s", describe(error))
            except pluggy.PluginValidationError as error:
                log.warning("hooks %r of %s is left out: %s", name, registries.hooks.owner(name), error)
                if self._manager.has_plugin(name):
                    self._manager.unregister(name=name)

    def names(self) -> list[str]:
        """The plugins that take part."""
        return sorted(name for name, _ in self._manager.list_name_plugin())

    def call(self, hook: str, **arguments: Any) -> list[Any]:
        """Call every implementation of a hook; their results that are not None, the latest registered first."""
        results = []
        for implementation in reversed(getattr(self._manager.hook, hook).get_hookimpls()):
            try:
                result = implementation.function(*(arguments[name] for name in implementation.argnames))
            except Exception:
                log.exception("hook %s of plugin %r failed", hook, implementation.plugin_name)
                continue
            if result is not None:
                results.append(result)
        return results

    def wrap_app(self, app: Any, config: Any) -> Any:
        """``sgl_asgi_app``: each plugin gets the application that the one before it gave, and may give another."""
        for implementation in self._manager.hook.sgl_asgi_app.get_hookimpls():
            arguments = {"app": app, "config": config}
            try:
                wrapped = implementation.function(*(arguments[name] for name in implementation.argnames))
            except Exception:
                log.exception("hook sgl_asgi_app of plugin %r failed", implementation.plugin_name)
                continue
            app = wrapped if wrapped is not None else app
        return app
