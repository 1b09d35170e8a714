"""``sgl facts``: what sgl knows of this machine, or of a profile, in the form that ``sgl explain --facts`` reads."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from sgl_core.api.facts import Facts
from sgl_core.config.errors import did_you_mean
from sgl_core.config.machine_profiles import ProfileError, load_facts, profile_files

HELP = """\
usage: sgl facts [--json] [--device PLATFORM]
       sgl facts --profile NAME [--json]
       sgl facts --profile list

Prints what configuration rules know of this machine, found by the installed platforms. The JSON form can be saved and
given to `sgl explain --facts FILE` elsewhere. --profile prints a packaged machine; NAMEx8 stands for eight devices."""
OPTIONS = ("--json", "--device", "--profile", "--help")


class UsageError(ValueError):
    """A wrong command line."""


def main(argv: Sequence[str]) -> int:
    """Run the command; 0 on success, 1 where the machine cannot be told, 2 for a wrong command line."""
    from sgl_core.registry import Registries
    from sgl_core.registry.errors import RegistryError, describe
    from sgl_core.registry.policy import Policy
    from sgl_core.registry.scan import scan

    try:
        as_json, device, profile, asked_help = read(argv)
        if asked_help:
            print(HELP)
            return 0
        registries = Registries(scan(), Policy.from_env(os.environ))
        if profile == "list":
            print("\n".join(profile_files(registries)))
            return 0
        if profile:
            facts = load_facts(profile, registries)
        else:
            from sgl_core.registry.platform import select_platform

            facts = select_platform(registries, device or None, os.environ).facts
    except (UsageError, ProfileError) as error:
        print(f"sgl facts: {error}", file=sys.stderr)
        return 2
    except RegistryError as error:
        print(f"sgl facts: {describe(error)}", file=sys.stderr)
        return 1
    # Piped into a file it is JSON too: that is what the file is for.
    print(facts.to_json() if as_json or not sys.stdout.isatty() else as_text(facts))
    return 0


def read(argv: Sequence[str]) -> tuple[bool, str, str, bool]:
    """Whether JSON is wanted, the device, the profile, whether help is wanted. Raises :class:`UsageError`."""
    as_json = asked_help = False
    values = {"--device": "", "--profile": ""}
    words = list(argv)
    while words:
        word, equals, inline = words.pop(0).partition("=")
        if word == "--json":
            as_json = True
        elif word in ("-h", "--help"):
            asked_help = True
        elif word in values:
            if not equals and not words:
                raise UsageError(
                    f"{word} needs a value" + ("; `--profile list` lists them" if word == "--profile" else "")
                )
            values[word] = inline if equals else words.pop(0)
        else:
            raise UsageError(f"there is no option {word}.{did_you_mean(word, OPTIONS)}\n{HELP}")
    return as_json, values["--device"], values["--profile"], asked_help


def as_text(facts: Facts) -> str:
    """The facts for people."""

    def gib(mib: float | None) -> str:
        return f"{mib / 1024:.1f} GiB" if mib else "unknown"

    rows = [
        ("platform", facts.platform),
        ("device", " x ".join(filter(None, (str(facts.device_count or ""), facts.device_name or facts.device)))),
        ("architecture", facts.gfx or (str(facts.arch) if facts.arch else "")),
        ("device memory", gib(facts.device_memory_mib) if facts.device_memory_mib else ""),
        ("host memory", gib(facts.host_memory_mib)),
        ("cpu cores", str(facts.cpu_count or "")),
        (
            "versions",
            ", ".join(
                filter(
                    None,
                    (
                        facts.cuda_version and f"CUDA {facts.cuda_version}",
                        facts.hip_version and f"HIP {facts.hip_version}",
                        facts.driver_version and f"driver {facts.driver_version}",
                    ),
                )
            ),
        ),
        ("libraries", ", ".join(f"{name} {version}" for name, version in sorted(facts.libraries.items()))),
        ("features", ", ".join(sorted(facts.features))),
        ("environment", ", ".join(f"{name}={value}" for name, value in sorted(facts.env.items()))),
    ]
    return "\n".join(f"{title:<14} {text}" for title, text in rows if text)
